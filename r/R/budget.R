#' How much may be released
#'
#' Says how many synthetic tables may be released before any value of anyone is disclosed (95 % sure), and who
#' sets the limit. Nothing is drawn for it but in simulation.
#'
#' @param data The confidential table.
#' @param rows The rows of each synthetic table; `NULL` for draws of the model's parameters.
#' @param release What was released already, as in [risk()]: it counts.
#' @inheritParams risk
#' @inheritParams synthesize
#' @param ... Further arguments of Python's `budget` and `Records.of`, by name: `alternatives` (what would allow
#'   more), `cells`, `keep`, `columns`, `complete_cases`.
#' @return A budget: `count` (how many may be released from here on), `in_all`, `limiting_row`, `limiting_column`,
#'   `sentence`, `assumptions`, and `people`, a data frame of everybody's chances. [plot()] draws it.
#' @examplesIf allbutone_available()
#' plan <- budget(demo_cohort(), rows = 503)
#' plan
#' plan$count
#' @export
budget <- function(data, rows = nrow(data), release = NULL, prior = NULL, adversary = NULL, probability = 0.5,
                   missing = "refuse", schema = NULL, ..., dates = "refuse") {
  call <- sys.call()
  dates <- if (is.null(release)) check_dates(dates, call) else dates_of(release, if (dates != "refuse") dates, call)
  given <- arguments(rows = rows, prior = prior, adversary = adversary, probability = probability, missing = missing,
                     schema = schema, ..., call = call)
  if (is.logical(rows)) stop_input("`rows` is a number", call = call)
  if (!is.null(release)) given$release <- release_for(release, call)
  asked <- table_for(data, dates, call)
  found <- ask("budget", asked$table, asked$whole, given, call = call)
  words <- found$words
  structure(
    list(count = words$confident_count, in_all = words$in_all, limiting_row = words$limiting_row,
         limiting_column = words$limiting_column, sentence = words$sentence, assumptions = words$assumptions,
         people = data_frame(found$people), shown = list2env(list(figure = found$figure))),
    class = "allbutone_budget"
  )
}

#' @rdname budget
#' @param x A budget.
#' @export
print.allbutone_budget <- function(x, ...) {
  say(c(paste(if (x$count > 0) "\u2714" else "\u2718", x$sentence), x$assumptions))
  invisible(x)
}
