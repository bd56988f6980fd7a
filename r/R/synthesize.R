#' Synthesize a table
#'
#' Fits a Bayesian model to a data frame and draws synthetic versions of it, each from a posterior draw of its own.
#' Measurements are multivariate normal on the scales declared for them, within the categories where there are any.
#'
#' Factors, logicals and texts of few levels are categories; factors keep their levels, ordered ones their order.
#' `NA` is a gap, which is refused unless `missing` or `complete_cases` says what to do about it. Whole numbers stay
#' whole. Dates name people, so they are refused unless `schema` declares them, such as `list(seen = list(kind =
#' "date"))`, or `dates = "days"` lets all be modelled as days since 1970. Where all values of a column of haven's
#' have labels it is a category, and comes back as it came. A table with a row for each visit of each person goes in
#' and comes out as such where `schema` tells the visits.
#' Nothing that describes the model may be computed from the confidential table: scales, limits and prior come from
#' public knowledge.
#'
#' @param data The confidential table, one row a person: a data frame or tibble.
#' @param datasets How many synthetic tables to draw.
#' @param rows The rows of each, one number or one for each table; as many as `data` has by default.
#' @param missing What to do about gaps: `"refuse"`, `"impute"` (synthetic tables are complete) or `"keep"`
#'   (synthetic tables have gaps of their own).
#' @param schema What is declared of columns: the path of a table file, which [describe()] drafts, or a list by
#'   column, such as `list(crp = list(scale = "log", low = 0))`. Of a long table: `list(person = "id", visit =
#'   "month", visits = c(0, 6, 12), columns = list(crp = list(scale = "log")))`.
#' @param prior What is known of the measurements beforehand: the path of a prior file or its entries in a list,
#'   such as `list(centre = c(sbp = 128, bmi = 26), spread = c(sbp = 15, bmi = 4))`, or `mean`, `mean_weight`, `df` and
#'   `scale`, a matrix; flat by default.
#' @param dates `"refuse"`, for dates and times that are not declared, or `"days"` to model all as days since 1970.
#' @param ... Further arguments of Python's `Synthesizer`, `sample` and `Records.of`, by name: `columns`, `drop`,
#'   `complete_cases`, `drop_unusable`, `missing_codes`, `rows_are_people`, `model`, `classes`, `cells`,
#'   `keep`, `epsilon`, `delta`, `parameters`, `repeat_key`.
#' @return A release: `as.data.frame(release, dataset = 2)` or `release[[2]]` is a synthetic table, `as.list(release)`
#'   has all, `length(release)` counts them. It lives as long as the R session; [save_release()] keeps it.
#' @seealso [risk()] says what it gives away, [report()] writes the whole case, [budget()] says how much may be drawn.
#' @examplesIf allbutone_available()
#' cohort <- demo_cohort()
#' release <- synthesize(cohort, datasets = 2, rows = 100)
#' release
#' head(release[[1]])
#' @export
synthesize <- function(data, datasets = 1, rows = NULL, missing = "refuse", schema = NULL, prior = NULL, ...,
                       dates = "refuse") {
  call <- sys.call()
  dates <- check_dates(dates, call)
  given <- arguments(datasets = datasets, rows = rows, missing = missing, schema = schema, prior = prior, ...,
                     call = call)
  asked <- table_for(data, dates, call)
  release <- ask("synthesize", asked$table, asked$whole, given, call = call)
  new_release(release, prototype_of(data, dates))
}

new_release <- function(python, prototype) {
  structure(c(list(python = python, prototype = prototype), ask("about", python)), class = "allbutone_release")
}

#' A release as tables, in words, and in a folder
#'
#' @param x,release,object A release, as [synthesize()] draws it.
#' @param dataset,i Which synthetic table, counted from 1.
#' @param folder The folder to write to, or to read from: the synthetic tables as CSV files, and the mechanism; no
#'   seed, no posterior, no statistic of the confidential table.
#' @param force Whether a release that is there already may be written over.
#' @param like A data frame of which the synthetic columns are to be again what they were: factors with their
#'   labels, dates, whole numbers. Its values are not looked at.
#' @param dates As [synthesize()] was told.
#' @param row.names,optional,... Not used.
#' @return `save_release()` the folder, invisibly; `load_release()` a release; the others a data frame, a list of
#'   data frames, or a number.
#' @examplesIf allbutone_available()
#' cohort <- demo_cohort()
#' folder <- file.path(tempdir(), "release")
#' save_release(synthesize(cohort, rows = 50), folder, force = TRUE)
#' again <- load_release(folder, like = cohort)
#' nrow(as.data.frame(again))
#' @name releases
NULL

#' @rdname releases
#' @export
save_release <- function(release, folder, force = FALSE) {
  call <- sys.call()
  ask("save", release_for(release, call), path_for(folder, call), isTRUE(force), call = call)
  invisible(folder)
}

#' @rdname releases
#' @export
load_release <- function(folder, like = NULL, dates = "refuse") {
  call <- sys.call()
  prototype <- if (!is.null(like)) prototype_of(like, check_dates(dates, call))
  new_release(ask("load", path_for(folder, call), call = call), prototype)
}

#' @rdname releases
#' @export
as.data.frame.allbutone_release <- function(x, row.names = NULL, optional = FALSE, ..., dataset = 1) {
  x[[dataset]]
}

#' @rdname releases
#' @export
`[[.allbutone_release` <- function(x, i) {
  fields <- unclass(x)
  if (is.character(i)) return(fields[[i]])
  if (length(i) != 1 || is.na(i) || i < 1 || i > fields$datasets || i != round(i)) {
    stop_input(paste0("there is no dataset ", i[1], "; the release has ", fields$datasets), call = sys.call())
  }
  data_frame(ask("dataset", release_for(x, sys.call()), as.integer(i)), fields$prototype)
}

#' @rdname releases
#' @export
as.list.allbutone_release <- function(x, ...) lapply(seq_len(length(x)), function(i) x[[i]])

#' @rdname releases
#' @export
length.allbutone_release <- function(x) unclass(x)$datasets

#' @rdname releases
#' @export
print.allbutone_release <- function(x, ...) {
  cat(x$words, "\n", sep = "")
  if (length(x)) cat("as.data.frame(release, dataset = 1) is a table; risk(data, release) says what it gives away.\n")
  invisible(x)
}

#' @rdname releases
#' @export
summary.allbutone_release <- function(object, ...) {
  if (!length(object)) return(summary(object$words))
  summary(do.call(rbind, as.list(object)), ...)
}

# What Python takes for a release: the object, a folder's path, or several of these in a list.
release_for <- function(release, call) {
  if (inherits(release, "allbutone_release")) {
    if (reticulate::py_is_null_xptr(release$python)) {
      stop_input("the release is of an R session that has ended",
                 list(list(words = "keep releases in folders", code = "save_release(release, folder)", argument = "")),
                 call = call)
    }
    return(release$python)
  }
  if (is.character(release) && length(release) == 1) return(path.expand(release))
  if ((is.list(release) && !is.data.frame(release)) || is.character(release)) return(lapply(release, release_for, call = call))
  stop_input(paste0("a release is what synthesize() draws, or its folder, got ", class(release)[1]), call = call)
}

dates_of <- function(release, dates, call) {
  if (!is.null(dates)) return(check_dates(dates, call))
  one <- if (inherits(release, "allbutone_release")) release else if (is.list(release)) release[[1]]
  if (inherits(one, "allbutone_release") && length(one$prototype)) one$prototype$dates else "refuse"
}

#' The simulated cohort that the examples use
#'
#' @return A data frame of 503 simulated people with five standardized scores; nobody stands behind any row.
#' @examplesIf allbutone_available()
#' summary(demo_cohort())
#' @export
demo_cohort <- function() data_frame(ask("demo"))
