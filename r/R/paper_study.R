#' Make the paper again
#'
#' Makes every figure and table of the paper whose synthesizer this implements, the printed numbers beside ours, as
#' one page that opens offline; half a minute with the paper's numbers.
#'
#' @param out The folder to create.
#' @param replicates Simulated attacks of each of the study's 1008 settings.
#' @param datasets Synthetic datasets of the application.
#' @param force Whether such a folder that is there may be written over.
#' @return Where the page is (`page`), and `cells`, a data frame of the study's settings. `plot()` opens the page.
#' @examples
#' \dontrun{
#' made <- paper_study("paper")
#' plot(made)
#' }
#' @export
paper_study <- function(out = "paper", replicates = 1000, datasets = 1000, force = FALSE) {
  call <- sys.call()
  given <- arguments(replicates = replicates, datasets = datasets, call = call)
  found <- ask("paper_study", path_for(out, call), given, isTRUE(force), call = call)
  structure(list(page = found$page, cells = utils::read.csv(found$cells)), class = "allbutone_paper")
}

#' @rdname paper_study
#' @param x What `paper_study()` returns.
#' @param ... Not used.
#' @export
print.allbutone_paper <- function(x, ...) {
  cat("The paper made again: ", x$page, "; ", nrow(x$cells), " settings in $cells.\n", sep = "")
  invisible(x)
}

#' @rdname paper_study
#' @export
plot.allbutone_paper <- function(x, ...) {
  utils::browseURL(normalizePath(x$page))
  invisible(x$page)
}
