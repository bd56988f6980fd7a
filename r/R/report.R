#' The whole case for or against a release, in one page
#'
#' @inheritParams risk
#' @param release What [synthesize()] drew, or the folder of a release.
#' @param out The HTML file to write. It is confidential, and only its owner can read it.
#' @param public Whether to write one that may go with the release: made from the release and the `note` alone.
#' @param note What must be said of the data.
#' @param force Whether a file that is there may be written over.
#' @param open Whether to open the page.
#' @return What it finds: `path`, `headline`, `may_go_out`, `how_sure`, `membership`, `mark` (the decision as a sign),
#'   and `findings`, a data frame. `plot()` opens the page.
#' @examplesIf allbutone_available()
#' cohort <- demo_cohort()
#' out <- file.path(tempdir(), "about.html")
#' report(cohort, synthesize(cohort), out, public = TRUE, force = TRUE)
#' @export
report <- function(data, release, out = "report.html", public = FALSE, probability = 0.5, note = "", force = FALSE,
                   ..., dates = NULL, open = interactive()) {
  call <- sys.call()
  if (interactive() && !public) message("Writing the report; this takes about half a minute.")
  given <- arguments(out = path_for(out, call), public = public, probability = probability, note = note, force = force,
                     ..., call = call)
  asked <- table_for(data, dates_of(release, dates, call), call)
  found <- ask("report", asked$table, asked$whole, release_for(release, call), given, call = call)
  made <- structure(
    list(path = found$path, headline = found$headline, may_go_out = found$verdict$may_go_out,
         how_sure = found$verdict$how_sure, membership = found$verdict$membership, mark = found$verdict$mark,
         findings = rows_of(found$findings, c("subject", "words"))),
    class = "allbutone_report"
  )
  if (open) utils::browseURL(normalizePath(made$path))
  made
}

#' @rdname report
#' @param x A report.
#' @export
print.allbutone_report <- function(x, ...) {
  mark <- if (length(x$mark)) paste0(x$mark, " ")
  membership <- if (length(x$membership) && nzchar(x$membership)) paste0("Membership: ", x$membership)
  findings <- if (nrow(x$findings)) paste0(x$findings$subject, ": ", x$findings$words)
  say(c(paste0(mark, x$headline, "."), x$how_sure, membership, findings))
  cat("Written:", x$path, "\n")
  invisible(x)
}

#' @rdname report
#' @export
plot.allbutone_report <- function(x, ...) {
  utils::browseURL(normalizePath(x$path))
  invisible(x$path)
}

#' Whether a release holds only what may go out
#'
#' Looks at a release's folder, its zip file or one of its tables as an adversary would: for a key, statistics,
#' more files or digits than declared, metadata, and, with the confidential table, for what was carried over.
#'
#' @param folder The folder, zip file or single table.
#' @param data The confidential table, if what was carried over of it is to be looked for.
#' @param people_confidential Whether the number of people may not be told either.
#' @inheritParams synthesize
#' @param ... Not used.
#' @return A check: `clean`, `verdict`, and `findings`, a data frame of all that may not go out, with its cure. Clean says how a release is written, not what it gives away: [risk()] tells that.
#' @examplesIf allbutone_available()
#' cohort <- demo_cohort()
#' folder <- file.path(tempdir(), "to-check")
#' save_release(synthesize(cohort), folder, force = TRUE)
#' check_release(folder, cohort)
#' @export
check_release <- function(folder, data = NULL, schema = NULL, people_confidential = FALSE, ..., dates = "refuse") {
  call <- sys.call()
  given <- arguments(schema = schema, people_confidential = people_confidential, ..., call = call)
  table <- if (!is.null(data)) table_for(data, check_dates(dates, call), call)$table
  found <- ask("check", path_for(folder, call), table, given, call = call)
  structure(
    list(clean = !length(found$findings), verdict = found$verdict, checked = found$checked,
         notes = as.character(unlist(found$notes)), findings = rows_of(found$findings, c("where", "problem", "cure"))),
    class = "allbutone_check"
  )
}

#' @rdname check_release
#' @param x A check.
#' @export
print.allbutone_check <- function(x, ...) {
  say(paste(if (x$clean) "\u2714" else "\u2718", x$verdict))
  for (at in seq_len(nrow(x$findings))) {
    one <- x$findings[at, ]
    say(paste0("- ", one$where, ": ", one$problem, ". What to do: ", one$cure, "."))
  }
  say(c(paste0("Looked at: ", x$checked, "."), x$notes))
  invisible(x)
}

rows_of <- function(found, columns) {
  each <- lapply(stats::setNames(columns, columns), function(name) vapply(found, function(one) as.character(one[[name]]), ""))
  as.data.frame(each, stringsAsFactors = FALSE)
}
