# Python: where it is found, how it is asked, and how what went wrong there arrives here.

state <- new.env(parent = emptyenv())

ENVIRONMENT <- "r-allbutone"
VERSIONS <- ">=3.11,<3.15"

# What somebody has installed on purpose is used; else reticulate fetches it, where it can.
.onLoad <- function(libname, pkgname) {
  if (nzchar(Sys.getenv("RETICULATE_PYTHON"))) return()
  py_require <- get0("py_require", asNamespace("reticulate"), inherits = FALSE)
  if (has_environment()) {
    reticulate::use_virtualenv(ENVIRONMENT, required = FALSE)
  } else if (!is.null(py_require)) {
    py_require("allbutone", python_version = VERSIONS)
  }
}

has_environment <- function() {
  tryCatch(ENVIRONMENT %in% reticulate::virtualenv_list(), error = function(e) FALSE)
}

#' Install the Python package that does the work
#'
#' With reticulate 1.41 or later nothing need be installed once the Python package is on the package index: it is
#' fetched when it is first used, unless this was called. Earlier versions get a virtual environment of their own, `r-allbutone`, which holds Python's
#' `allbutone` and the packages it needs (NumPy, SciPy, PyArrow, Plotly and smaller ones; about 400 MB), and
#' nothing of your own Python installation is touched.
#'
#' @param source What pip installs: the name of the package, the path of a wheel, or the folder of its source.
#' @param python The Python to make the environment with (3.11 or later); by default the one that reticulate finds.
#' @return The name of the environment, invisibly.
#' @examples
#' \dontrun{
#' install_allbutone()                      # from the package index
#' install_allbutone("allbutone-0.2.0-py3-none-any.whl")
#' }
#' @export
install_allbutone <- function(source = "allbutone", python = NULL) {
  message("Makes the virtual environment ", ENVIRONMENT, " with ", source,
          " and the Python packages it needs, about 400 MB; nothing else is changed.")
  reticulate::virtualenv_create(ENVIRONMENT, python = python, packages = NULL)
  reticulate::virtualenv_install(ENVIRONMENT, packages = source, ignore_installed = FALSE)
  message("Installed. Restart R, and it is used.")
  invisible(ENVIRONMENT)
}

#' Whether the Python package can be used
#'
#' @return `TRUE` where Python and its package `allbutone` are found.
#' @examples
#' allbutone_available()
#' @export
allbutone_available <- function() {
  isTRUE(tryCatch(suppressWarnings(reticulate::py_module_available("allbutone")), error = function(e) FALSE))
}

python_side <- function() {
  if (is.null(state$module)) {
    if (!allbutone_available()) {
      why <- tryCatch({ reticulate::import("allbutone"); "" }, error = conditionMessage)
      stop_input(paste0("Python's package allbutone was not found: ", strsplit(paste0(why, "\n"), "\n")[[1]][1]),
                 list(list(words = "install it", code = "install_allbutone()", argument = ""),
                      list(words = "name a Python that has it in the environment variable RETICULATE_PYTHON",
                           code = "", argument = "")),
                 call = NULL)
    }
    place <- system.file("python", package = "allbutone", mustWork = TRUE)
    state$module <- reticulate::import_from_path("allbutone_r", path = place, convert = TRUE)
  }
  state$module
}

# Asks a function of inst/python/allbutone_r.py. Errors and warnings of Python become conditions of R.
ask <- function(name, ..., call = sys.call(-1)) {
  answer <- python_side()$answered(name, ...)
  for (each in answer$warnings) warn_of(each, call)
  if (!is.null(answer$message)) stop_input(answer$problem, answer$cures, answer$message, call)
  answer$value
}

stop_input <- function(problem, cures = list(), message = NULL, call = NULL) {
  if (is.null(message)) {
    ways <- vapply(cures, function(one) {
      if (nzchar(one$code)) paste0(one$words, " (", one$code, ")") else one$words
    }, "")
    message <- paste(c(problem, if (length(ways)) paste(ways, collapse = ", or ")), collapse = "; ")
  }
  stop(structure(
    class = c("allbutone_input_error", "error", "condition"),
    list(message = message, call = call, problem = problem, cures = cures)
  ))
}

warn_of <- function(noticed, call) {
  warning(structure(
    class = c(noticed$kind, "allbutone_warning", "warning", "condition"),
    list(message = noticed$words, call = call)
  ))
}

# Arguments as they cross: NA would arrive as TRUE in Python, so it is refused; nothing is recycled or guessed.
arguments <- function(..., call = sys.call(-1)) {
  given <- list(...)
  given <- given[!vapply(given, is.null, NA)]
  if (length(given) && (is.null(names(given)) || any(!nzchar(names(given))))) {
    stop_input("all arguments after the first ones are given by name", call = call)
  }
  lost <- names(given)[vapply(given, holds_na, NA)]
  if (length(lost)) {
    stop_input(paste0("`", lost[1], "` holds NA"), list(list(words = "leave it out", code = "", argument = "")),
               call = call)
  }
  if (is.list(given$schema)) given$schema <- schema_entries(given$schema)
  else if (!is.null(given$schema) && !is.character(given$schema)) {
    stop_input(paste0("`schema` is the path of a table file, or a list by column, got ", class(given$schema)[1]),
               call = call)
  }
  lapply(given, as_python)
}

# Matrices cross as lists of their rows, which every version of reticulate can; by name, where rows and columns have
# names. So do numbers that have names within a list, such as `prior = list(centre = c(bmi = 25, sbp = 120))`.
as_python <- function(value, within = FALSE) {
  if (is.matrix(value)) {
    if (is.null(rownames(value)) || is.null(colnames(value))) value <- unname(value)
    rows <- lapply(seq_len(nrow(value)), function(at) stats::setNames(as.list(value[at, ]), colnames(value)))
    return(stats::setNames(rows, rownames(value)))
  }
  if (is.list(value)) return(lapply(value, as_python, within = TRUE))
  if (is.factor(value)) value <- as.character(value)
  if (!is.atomic(value) || is.null(names(value))) return(value)
  if (within && is.numeric(value)) as.list(value) else unname(value)
}

# A path as Python takes it.
path_for <- function(path, call) {
  if (inherits(path, "allbutone_release")) {
    stop_input("a folder is needed, got a release",
               list(list(words = "write it to a folder first", code = "save_release(release, folder)", argument = "")),
               call = call)
  }
  if (!is.character(path) || length(path) != 1 || is.na(path)) {
    stop_input(paste0("a path is needed, one text, got ", class(path)[1]), call = call)
  }
  path.expand(path)
}

# A list by column, or with what a table file of a long table has above its columns, and these in `columns`.
schema_entries <- function(schema) {
  if (!is.character(schema[["person"]])) return(lapply(schema, column_entries))
  schema <- column_entries(schema)
  if (is.list(schema[["columns"]])) schema$columns <- lapply(schema[["columns"]], column_entries)
  schema
}

holds_na <- function(value) {
  if (is.list(value)) any(vapply(value, holds_na, NA)) else is.atomic(value) && anyNA(value)
}

# What is declared of a column: entries that are lists in Python stay lists where they hold one value.
column_entries <- function(entries) {
  for (name in intersect(c("levels", "missing", "visits"), names(entries))) entries[[name]] <- as.list(entries[[name]])
  if (is.numeric(entries[["course"]])) entries$course <- as.list(entries$course)
  entries
}
