# Tables of simulated people. Without Python's package the tests that need it are left out; where it must be there
# (ALLBUTONE_R_MUST_RUN, set by make test-r) they fail instead.
needs_python <- function() {
  if (!nzchar(Sys.getenv("ALLBUTONE_R_MUST_RUN"))) skip_if_not(allbutone_available(), "Python's package allbutone is missing")
}

clinic <- function(n = 60, seed = 7) {
  set.seed(seed)
  z <- matrix(rnorm(2 * n), n)
  data.frame(sbp = round(128 + 15 * z[, 1], 1), bmi = round(26 + 2 * z[, 1] + 3 * z[, 2], 1))
}

# One column of every kind that R has, beside two measurements.
every_kind <- function(n = 120) {
  table <- clinic(n)
  table$age <- as.integer(round(rnorm(n, 60, 12)))
  table$sex <- factor(sample(c("male", "female"), n, TRUE), levels = c("male", "female"))
  table$stage <- factor(sample(c("late", "early", "none"), n, TRUE), levels = c("none", "early", "late"), ordered = TRUE)
  table$treated <- sample(c(TRUE, FALSE), n, TRUE)
  table$place <- sample(c("\u00c5rhus", "K\u00f8ge"), n, TRUE)
  table$visit <- as.Date("2021-06-01") + round(rnorm(n, 0, 200))
  table$taken <- as.POSIXct("2021-06-01 12:00:00", tz = "Europe/Copenhagen") + rnorm(n, 0, 4e6)
  table$stay <- as.difftime(rnorm(n, 50, 5), units = "hours")
  table$smoker <- labelled(sample(1:3, n, TRUE) + 0, c(never = 1, once = 2, now = 3), "Smoking")
  table$score <- labelled(round(rnorm(n, 50, 9), 2), c(refused = -7), "A score of which one value is named")
  table
}

# haven's own class, without a need for haven
labelled <- function(x, labels, label) {
  structure(x, labels = labels, label = label, class = c("haven_labelled", "vctrs_vctr", "double"))
}

with_gaps <- function(table, share = 0.05) {
  for (at in seq_along(table)) {
    gaps <- sample(nrow(table), ceiling(share * nrow(table)))
    if (inherits(table[[at]], "haven_labelled")) {
      kept <- attributes(table[[at]])
      plain <- unclass(table[[at]])
      plain[gaps] <- NA
      attributes(plain) <- kept
      table[[at]] <- plain
    } else {
      table[[at]][gaps] <- NA
    }
  }
  table
}

there_and_back <- function(table, dates = "days") {
  asked <- allbutone:::table_for(table, dates, NULL)
  allbutone:::data_frame(asked$table, allbutone:::prototype_of(table, dates))
}

sorted_attributes <- function(x) attributes(x)[sort(names(attributes(x)))]
