"""An environment of its own for each tool: what it takes to set one up, or what went wrong."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
ROOT = Path(__file__).parents[1]
TORCH = os.environ.get("TORCH", "2.13.0")
# torch first: SDV and smartnoise-synth need it, and would take the largest build of it there is
WANTED = {
    "allbutone": [[str(ROOT)]],
    "sdv": [[f"torch=={TORCH}"], ["sdv"]],
    "anonymeter": [["anonymeter"]],
    "smartnoise-synth": [[f"torch=={TORCH}"], ["smartnoise-synth"]],
    "synthpop-py": [["synthpop-py"]],
    "mostlyai-engine": [[f"torch=={TORCH}"], ["mostlyai-engine"]],
}
# asked for, but built on PyPI for graphics cards alone, which fails beside PyTorch's build for processors; tables
# need neither
UNLOADABLE = {"mostlyai-engine": ["torchvision", "torchaudio"]}
SYNTHPOP = 'cat(as.character(packageVersion("synthpop")))'


@dataclass(frozen=True)
class Environment:
    """A tool as installed: what runs it, its version, what was fetched, or the error that stopped it."""

    name: str
    program: str
    version: str = ""
    packages: int = 0
    megabytes: int = 0
    seconds: float = 0.0
    error: str = ""

    def run(self, script: str, *arguments: object) -> dict:
        """Run a tool's script and return what it printed last, as JSON; or what went wrong, as `error`."""
        if self.error:
            return {"error": self.error}
        command = [self.program, str(TOOLS / script), *map(str, arguments)]
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, env=clean | one)
        if done.returncode:
            return {"error": _last_line(done.stderr)}
        return json.loads(done.stdout.splitlines()[-1])


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


def environment(name: str, folder: Path) -> Environment:
    """Return the tool's environment, made on first use."""
    place = folder / name
    made = place / "made.json"
    if made.exists():
        return Environment(**json.loads(made.read_text()))
    shutil.rmtree(place, ignore_errors=True)
    print(f"setting up {name}", flush=True)
    start, python = time.perf_counter(), place / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    for wanted in WANTED[name]:
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "-q",
            "--no-compile",
            "--disable-pip-version-check",
            *wanted,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return Environment(name, str(python), error=f"pip: {_last_line(done.stderr)}")
    if unloadable := UNLOADABLE.get(name):
        subprocess.run([str(python), "-m", "pip", "uninstall", "-q", "-y", *unloadable], check=True)
    listed = json.loads(subprocess.check_output([str(python), "-m", "pip", "list", "--format", "json"], text=True))
    version = next(each["version"] for each in listed if each["name"].lower() == name)
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file() and not file.is_symlink())
    found = Environment(
        name, str(python), version, len(listed) - 2, round(size / 1e6), round(time.perf_counter() - start)
    )
    made.write_text(json.dumps(asdict(found)))
    return found


def synthpop() -> Environment:
    """Return R with synthpop, where Debian has it or R's own installer can reach it; else say why not."""
    name, start = "synthpop", time.perf_counter()
    if shutil.which("Rscript") is None:
        _quietly("apt-get", "install", "-y", "-qq", "--no-install-recommends", "r-base-core")
    if shutil.which("Rscript") is None:
        return Environment(name, "", error="R is not installed, and apt-get could not install r-base-core")
    if _quietly("Rscript", "-e", SYNTHPOP):
        _quietly("apt-get", "install", "-y", "-qq", "--no-install-recommends", "r-cran-synthpop")
    if _quietly("Rscript", "-e", SYNTHPOP):
        _quietly("Rscript", "-e", 'install.packages("synthpop", repos = "https://cloud.r-project.org")')
    done = subprocess.run(["Rscript", "-e", SYNTHPOP], capture_output=True, text=True)
    if done.returncode:
        words = "neither Debian (r-cran-synthpop) nor CRAN could give it to this machine"
        return Environment(name, "Rscript", error=words)
    return Environment(name, "Rscript", done.stdout, seconds=round(time.perf_counter() - start))


def _quietly(*command: str) -> int:
    try:
        return subprocess.run(command, capture_output=True, timeout=600).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 1
