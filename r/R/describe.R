#' Look at every column of a table
#'
#' Says what each column is and what will be done with it, and drafts a table file to confirm.
#'
#' @param data The confidential table.
#' @param out Where to write the draft of a table file (`.toml`); it is what `schema` takes elsewhere.
#' @param force Whether a file that is there may be written over.
#' @inheritParams synthesize
#' @param ... Further arguments: `columns`, `drop`, `rows_are_people`.
#' @return A description: `sentence`, `notes`, and `columns`, a data frame with a row for each column. It is
#'   confidential.
#' @examplesIf allbutone_available()
#' describe(demo_cohort())
#' @export
describe <- function(data, out = NULL, schema = NULL, force = FALSE, ..., dates = "refuse") {
  call <- sys.call()
  asked <- table_for(data, check_dates(dates, call), call)
  labels <- lapply(data, function(x) attr(x, "label", exact = TRUE))
  labels <- Filter(function(one) is.character(one) && length(one) == 1 && !is.na(one) && nzchar(one), labels)
  given <- arguments(schema = schema, ..., call = call)
  out <- if (!is.null(out)) path_for(out, call)
  labels <- if (length(labels)) labels
  found <- ask("describe", asked$table, labels, out, isTRUE(force), given, call = call)
  made <- data.frame(
    column = vapply(found$columns, function(one) one$column, ""),
    kind = vapply(found$columns, function(one) one$kind, ""),
    missing = vapply(found$columns, function(one) as.integer(one$missing), 0L),
    what = vapply(found$columns, function(one) one$what, "")
  )
  structure(list(sentence = found$sentence, columns = made, notes = as.character(unlist(found$notes)), out = out),
            class = "allbutone_description")
}

#' @rdname describe
#' @param x A description.
#' @export
print.allbutone_description <- function(x, ...) {
  cat(x$sentence, "\n", sep = "")
  print_columns(x$columns)
  if (length(x$notes)) say(x$notes)
  if (!is.null(x$out)) cat("Written: ", x$out, ". Read it, confirm what it proposes, and fill in what is public.\n", sep = "")
  invisible(x)
}

# A line for each column; what will be done with it is broken to the width that is left.
print_columns <- function(columns) {
  names <- c("column", "kind", "missing")
  each <- lapply(names, function(name) format(c(name, format(columns[[name]])), justify = if (name == "missing") "right" else "left"))
  before <- paste0(" ", do.call(paste, each), " ")
  gap <- strrep(" ", nchar(before[1], "width"))
  room <- max(20, getOption("width") - nchar(before[1], "width"))
  what <- lapply(c("what", columns$what), strwrap, width = room)
  for (at in seq_along(before)) cat(paste0(c(before[at], rep(gap, max(0, length(what[[at]]) - 1))), what[[at]]), sep = "\n")
}
