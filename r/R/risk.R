#' What a release gives away of each person
#'
#' Plays the adversary against a release, exactly: somebody who has all records but one, the release and the
#' mechanism, and infers the missing one; for every person.
#'
#' @param data The confidential table that the release was made from.
#' @param release What [synthesize()] drew, the folder of a release, or several of these in a list, which are
#'   attacked together.
#' @param adversary Who attacks, in a list: `known` (columns of the person that they know), `lacking_columns`,
#'   `lacking_records`, `secret`, `prior`. By default every value is judged against somebody who has nothing of the
#'   person, and against somebody who has all else of the person.
#' @param probability From which probability on a value counts as disclosed.
#' @param mass Whether the posterior mass near the truth is computed, too, which takes longer.
#' @param dates As [synthesize()] was told; by default as the release was made.
#' @param ... Further arguments of Python's `risk` and `Records.of`, by name: `membership`,
#'   `membership_odds`, `radius`, `columns`, `complete_cases`, `missing_codes`, `rows_are_people`.
#' @return A data frame with a row for each person: `row`, whether a value of theirs is `disclosed`, their `risk`
#'   and in which column it is `riskiest`, to which `adversary`; how sure one becomes of their `membership` in the
#'   table, and whether that is disclosed; then the measures, and of each column the `probability_...` of the true
#'   value beside `baseline_...`, without the release; `rest_known_...` are those of somebody who knows all else of
#'   the person. Printed, it says the verdict, and who comes closest to being disclosed; [plot()] draws it.
#'   It is confidential.
#' @examplesIf allbutone_available()
#' cohort <- demo_cohort()
#' release <- synthesize(cohort)
#' found <- risk(cohort, release, mass = FALSE)
#' found
#' plot(found)
#' @export
risk <- function(data, release, adversary = NULL, probability = 0.5, mass = TRUE, ..., dates = NULL) {
  call <- sys.call()
  dates <- dates_of(release, dates, call)
  given <- arguments(adversary = adversary, probability = probability, mass = mass, ..., call = call)
  asked <- table_for(data, dates, call)
  found <- ask("risk", asked$table, asked$whole, release_for(release, call), given, call = call)
  # in an environment, so that str() shows the columns and not how figures are made
  shown <- list2env(list(verdict = found$verdict, closest = data_frame(found$closest), figures = found$figures))
  structure(data_frame(found$table), class = c("allbutone_risk", "data.frame"), shown = shown)
}

#' @rdname risk
#' @param x A risk table.
#' @param n How many people to show, those first of whom a value comes closest to being disclosed.
#' @export
print.allbutone_risk <- function(x, n = 5, ...) {
  shown <- attr(x, "shown")
  if (is.null(shown)) return(invisible(print(as.data.frame(x), ...)))
  say(verdict_words(shown$verdict))
  cat("\nThe people closest to being disclosed, with the release and without it (confidential):\n")
  print(utils::head(shown$closest, n), row.names = FALSE, ...)
  cat(nrow(x), " people, ", ncol(x), " columns: str() shows them, plot() draws them.\n", sep = "")
  invisible(x)
}

verdict_words <- function(verdict) {
  mark <- if (!isTRUE(verdict$passed)) paste0(verdict$mark, " ")
  membership <- if (nzchar(verdict$membership)) paste0("Membership: ", verdict$membership)
  c(paste0(mark, verdict$headline, "."), if (!isTRUE(verdict$passed)) verdict$who, verdict$how_sure, membership)
}

# Prints sentences in lines of R's width.
say <- function(words) cat(strwrap(words, width = getOption("width")), sep = "\n")

#' @rdname risk
#' @export
summary.allbutone_risk <- function(object, ...) {
  if (!is.null(attr(object, "shown"))) say(verdict_words(attr(object, "shown")$verdict))
  summary(as.data.frame(object)[c("risk", "disclosed")], ...)
}

#' @rdname risk
#' @param object A risk table.
#' @param row.names,optional Not used.
#' @export
as.data.frame.allbutone_risk <- function(x, row.names = NULL, optional = FALSE, ...) {
  attr(x, "shown") <- NULL
  class(x) <- "data.frame"
  x
}

#' @rdname risk
#' @param i A part of it is a plain data frame, and has no verdict.
#' @export
`[.allbutone_risk` <- function(x, i, ...) {
  part <- NextMethod()
  if (inherits(part, "allbutone_risk")) as.data.frame(part) else part
}
