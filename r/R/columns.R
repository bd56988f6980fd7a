# Columns: how each kind that R has crosses to Python, and how a synthetic column becomes that kind again.
#
# A column crosses as bytes, with what they are: "number" (doubles, NA is a gap), "whole" (integers), "levels" and
# "text" (numbers of levels, from 1), "date" (days since 1970) or "time" (seconds since 1970 by the column's own clock).

DAYS <- "days"
SECONDS_A_DAY <- 86400

# The columns of a data frame as Python takes them, or an error that names all that cannot cross.
crossing <- function(data, dates, call) {
  if (!is.data.frame(data)) {
    stop_input(paste0("the table must be a data frame or tibble, got ", class(data)[1]),
               list(list(words = "convert it", code = "as.data.frame(...)", argument = "")), call = call)
  }
  found <- lapply(seq_along(data), function(at) column_out(data[[at]], names(data)[at], dates))
  wrong <- Filter(is.character, found)
  if (length(wrong)) {
    lines <- paste0("  ", unlist(wrong), collapse = "\n")
    stop_input(paste0("these columns cannot be used:\n", lines), call = call)
  }
  found
}

column_out <- function(x, name, dates) {
  if (is.factor(x)) {
    x <- factor(x, levels(x)[!is.na(levels(x))])  # a level that is NA, as addNA() makes it, is a gap
    if (!is_readable(levels(x))) return(paste0("'", name, "' has levels of another encoding; convert them with iconv()"))
    return(coded(name, "levels", as.integer(x), levels(x)))
  }
  if (inherits(x, "haven_labelled")) return(labelled_out(x, name, dates))
  if (inherits(x, "Date")) {
    return(doubles(name, if (dates == DAYS) "number" else "date", floor(as.numeric(unclass(x)))))
  }
  if (inherits(x, "POSIXlt")) x <- as.POSIXct(x)
  if (inherits(x, "POSIXct")) {
    if (dates == DAYS) return(doubles(name, "number", as.numeric(unclass(x)) / SECONDS_A_DAY))
    return(doubles(name, "time", by_clock(x, "UTC")))
  }
  if (inherits(x, "difftime")) return(doubles(name, "number", as.numeric(unclass(x))))
  if (inherits(x, "integer64")) {
    return(paste0("'", name, "' holds 64-bit integers; convert it with as.numeric()"))
  }
  if (!is.null(dim(x)) || !is.atomic(x) || is.complex(x) || is.raw(x)) {
    return(paste0("'", name, "' is of class ", class(x)[1], ", which no column of a table of people is; leave it out"))
  }
  if (is.logical(x)) {
    if (all(is.na(x))) return(doubles(name, "number", as.numeric(x)))
    return(coded(name, "levels", as.integer(x) + 1L, c("FALSE", "TRUE")))
  }
  if (is.character(x)) {
    if (!is_readable(x)) return(paste0("'", name, "' holds text of another encoding; convert it with iconv()"))
    x <- utf8(x)
    different <- sort(unique(x[!is.na(x)]), method = "radix")
    return(coded(name, "text", match(x, different, incomparables = NA), different))
  }
  if (is.integer(x)) return(list(name = utf8(name), kind = "whole", bytes = writeBin(as.vector(x), raw(), endian = "little")))
  doubles(name, "number", as.numeric(x))
}

# Seconds since 1970 at which the clocks of another zone show what they show in that of these times. A day is
# then the day that R prints. Where clocks skip an hour R may know no such time: then it is an hour later.
by_clock <- function(x, zone) {
  at <- as.POSIXlt(x)
  seconds <- function(hour) {
    as.numeric(ISOdatetime(at$year + 1900, at$mon + 1, at$mday, hour, at$min, at$sec, tz = zone))
  }
  found <- seconds(at$hour)
  skipped <- is.na(found) & !is.na(as.numeric(as.POSIXct(x)))
  if (any(skipped)) found[skipped] <- seconds(at$hour + 1)[skipped]
  found
}

doubles <- function(name, kind, x) {
  list(name = utf8(name), kind = kind, bytes = writeBin(as.vector(x), raw(), endian = "little"))
}

# Text as UTF-8. What a file was read into is not marked as anything, which sort() refuses, and a session without a
# locale has no encoding at all.
utf8 <- function(x) {
  x <- as.character(x)
  unmarked <- which(Encoding(x) == "unknown" & validUTF8(x) & !l10n_info()[["Latin-1"]])
  Encoding(x[unmarked]) <- "UTF-8"
  enc2utf8(x)
}

is_readable <- function(x) l10n_info()[["Latin-1"]] || all(Encoding(x) != "unknown" | validUTF8(x))

coded <- function(name, kind, codes, levels) {
  list(name = utf8(name), kind = kind, bytes = writeBin(as.vector(codes), raw(), endian = "little"),
       levels = as.list(utf8(levels)))
}

# haven's labels: where every value has one it is a category of these; else it is what it is without them.
labelled_out <- function(x, name, dates) {
  x <- without_user_missing(x)
  labels <- attr(x, "labels", exact = TRUE)
  if (is_labelled_category(x)) {
    return(coded(name, "levels", match(as.vector(unclass(x)), labels), label_names(labels)))
  }
  attributes(x) <- NULL
  column_out(x, name, dates)
}

is_labelled_category <- function(x) {
  labels <- attr(x, "labels", exact = TRUE)
  plain <- as.vector(unclass(x))
  length(labels) > 1 && all(plain[!is.na(plain)] %in% labels)
}

label_names <- function(labels) {
  words <- names(labels)
  if (anyDuplicated(words)) paste(words, labels) else words
}

# SPSS declares values that stand for none; so do labels of them, which go, too.
without_user_missing <- function(x) {
  gone <- attr(x, "na_values", exact = TRUE)
  span <- attr(x, "na_range", exact = TRUE)
  plain <- as.vector(unclass(x))
  labels <- attr(x, "labels", exact = TRUE)
  is_gone <- function(values) {
    within <- if (length(span) == 2) !is.na(values) & values >= span[1] & values <= span[2] else FALSE
    values %in% gone | within
  }
  plain[is_gone(plain)] <- NA
  labels <- labels[!is_gone(labels)]
  structure(plain, labels = labels[!is.na(labels)], label = attr(x, "label", exact = TRUE), class = "haven_labelled")
}

# Of what data frame and columns synthetic tables are made again: no value of anybody, and no other attribute.
prototype_of <- function(data, dates) {
  columns <- lapply(stats::setNames(seq_along(data), utf8(names(data))), function(at) {
    x <- data[[at]]
    kept <- attributes(x)[c("levels", "class", "tzone", "units", "label", "labels", "na_values", "na_range")]
    kind <- if (inherits(x, "POSIXlt")) "double" else typeof(x)
    if (inherits(x, "POSIXlt")) {
      kept$class <- c("POSIXct", "POSIXt")
      kept$tzone <- kept$tzone[1]  # after it come the names of its summer and winter time
    }
    list(kind = kind, attributes = kept[!vapply(kept, is.null, NA)])
  })
  list(columns = columns, tibble = inherits(data, "tbl_df"), dates = dates)
}

# A table of Python as a data frame; columns that a prototype knows become what they were.
data_frame <- function(table, prototype = NULL) {
  crossed <- python_side()$columns_of(table)
  columns <- lapply(crossed, function(one) column_in(one, prototype$columns[[one$name]], prototype$dates))
  names(columns) <- vapply(crossed, function(one) one$name, "")
  rows <- if (length(columns)) length(columns[[1]]) else 0L
  made <- structure(columns, row.names = .set_row_names(rows), class = "data.frame")
  if (isTRUE(prototype$tibble)) class(made) <- c("tbl_df", "tbl", "data.frame")
  made
}

column_in <- function(crossed, like, dates) {
  x <- plain_in(crossed)
  if (is.null(like)) return(as_dated(x, crossed$kind))
  kept <- like$attributes
  what <- kept$class
  if (!is.null(kept$labels) && is.factor(x)) {
    labels <- attr(without_user_missing(do.call(structure, c(list(kept$labels), kept))), "labels")
    codes <- unname(labels)[match(as.character(x), utf8(label_names(labels)))]
    return(with_attributes(codes, kept))
  }
  if ("factor" %in% what) {
    return(structure(match(as.character(x), utf8(kept$levels)), levels = kept$levels, class = what, label = kept$label))
  }
  if ("POSIXct" %in% what && crossed$kind == "number" && identical(dates, DAYS)) x <- x * SECONDS_A_DAY
  if ("POSIXct" %in% what && crossed$kind == "time") x <- by_clock(as_dated(x, "time"), c(kept$tzone, "")[1])
  as_kind <- switch(like$kind, integer = as_whole, logical = as_flag, character = as.character, as_number)
  with_attributes(as_kind(x), kept)
}

as_dated <- function(x, kind) {
  switch(kind, date = as.Date(x, origin = "1970-01-01"), time = as.POSIXct(x, origin = "1970-01-01", tz = "UTC"), x)
}

with_attributes <- function(x, kept) {
  attributes(x) <- kept
  x
}

as_flag <- function(x) as.logical(as.character(x))
as_number <- function(x) if (is.factor(x)) as.numeric(as.character(x)) else x
as_whole <- function(x) {
  x <- as_number(x)
  if (is.numeric(x) && all(is.na(x) | (abs(x) < 2^31 & x == round(x)))) as.integer(x) else x
}

# A column as it comes, when nothing is known of what it was.
plain_in <- function(crossed) {
  if (crossed$kind %in% c("number", "whole", "date", "time")) {
    x <- readBin(crossed$bytes, "double", length(crossed$bytes) / 8, endian = "little")
    x[is.na(x)] <- NA_real_
    return(if (crossed$kind == "whole") as_whole(x) else x)
  }
  codes <- readBin(crossed$bytes, "integer", length(crossed$bytes) / 4, endian = "little")
  if (crossed$kind == "flag") return(as.logical(codes))
  levels <- as.character(unlist(crossed$levels))
  if (crossed$kind == "levels") structure(codes, levels = levels, class = "factor") else levels[codes]
}

# What Python is asked about a table of R: the table, and which columns are whole numbers, so that they stay that.
table_for <- function(data, dates, call) {
  columns <- crossing(data, dates, call)
  few <- function(x) length(unique(x[!is.na(x)])) <= 2  # numbers of two values are a category
  is_whole <- vapply(data, function(x) {
    plain <- (is.integer(x) && !is.factor(x) && is.null(attr(x, "labels"))) || inherits(x, "Date")
    plain && !few(as.numeric(x))
  }, NA)
  list(table = python_side()$table_of(columns), whole = as.list(utf8(names(data)[is_whole])))
}

check_dates <- function(dates, call) {
  if (!is.character(dates) || length(dates) != 1 || !dates %in% c("refuse", DAYS)) {
    stop_input("`dates` is \"refuse\" or \"days\"", call = call)
  }
  dates
}
