same_kind <- function(synthetic, table, names) {
  for (name in names) {
    expect_identical(sorted_attributes(synthetic[[name]]), sorted_attributes(table[[name]]))
    expect_identical(typeof(synthetic[[name]]), typeof(table[[name]]), info = name)
  }
}

test_that("every kind of column goes through synthesize() and is that kind again, gaps included", {
  needs_python()
  table <- with_gaps(every_kind())
  names <- names(table)
  release <- synthesize(table, datasets = 2, rows = 50, missing = "keep", dates = "days", columns = names)
  expect_length(release, 2)
  for (synthetic in as.list(release)) {
    expect_identical(dim(synthetic), c(50L, length(names)))
    same_kind(synthetic, table, names)
    expect_true(all(as.vector(unclass(synthetic$smoker)) %in% c(1:3, NA)))
    expect_true(all(synthetic$place %in% c("\u00c5rhus", "K\u00f8ge", NA)))
    expect_identical(unclass(synthetic$visit), round(unclass(synthetic$visit)))
  }
  expect_true(any(vapply(as.list(release), anyNA, NA)))
  complete <- synthesize(table, missing = "impute", dates = "days", columns = names)[[1]]
  expect_false(anyNA(complete))
  same_kind(complete, table, names)
})

test_that("synthetic columns are distributed as the real ones", {
  needs_python()
  table <- every_kind(400)[c("sbp", "age", "sex", "visit")]
  made <- synthesize(table, rows = 4000, dates = "days", columns = names(table))[[1]]
  for (name in c("sbp", "age", "visit")) {
    x <- as.numeric(table[[name]])
    # the mean of the real table and of what is drawn from its posterior: both vary
    expect_lt(abs(mean(as.numeric(made[[name]])) - mean(x)), 5 * sd(x) * sqrt(1 / 400 + 1 / 4000))
  }
  share <- mean(table$sex == "male")
  expect_lt(abs(mean(made$sex == "male") - share), 5 * sqrt(share * (1 - share) * (1 / 400 + 1 / 4000)))
})

test_that("releases go into folders and come back", {
  needs_python()
  table <- every_kind()[c("sbp", "bmi", "age", "sex", "stage", "treated")]
  release <- synthesize(table, datasets = 2)
  folder <- tempfile()
  save_release(release, folder)
  expect_error(save_release(release, folder), class = "allbutone_input_error")
  again <- load_release(folder, like = table)
  expect_equal(as.list(again), as.list(release), tolerance = 1e-12)
  same_kind(again[[1]], table, names(table))
  expect_s3_class(load_release(folder)[[1]]$sex, "factor")
  expect_true(check_release(folder, table)$clean)
  expect_error(release[[3]], "the release has 2", class = "allbutone_input_error")
})

test_that("dates that are declared come back as dates, by the clock of their zone, gaps included", {
  needs_python()
  table <- every_kind()[c("sbp", "bmi", "visit", "taken")]
  table$left <- table$visit + 1L + rpois(120, 5)
  table$clock <- as.POSIXlt(as.POSIXct("2021-06-01", tz = "America/New_York") + 86400 * rpois(120, 100))
  table <- with_gaps(table)
  table$left[is.na(table$visit)] <- NA
  when <- list(kind = "date")
  declared <- list(visit = when, left = c(when, above = "visit"), taken = c(when, precision = "minute"), clock = when)
  folder <- tempfile()
  save_release(synthesize(table, rows = 50, missing = "keep", schema = declared), folder)
  made <- load_release(folder, like = table)[[1]]
  same_kind(made, table, c("visit", "taken", "left"))
  expect_true(all(made$left >= made$visit, na.rm = TRUE))
  expect_true(all(as.numeric(made$taken) %% 60 == 0, na.rm = TRUE))
  expect_true(all(format(made$clock, "%H:%M %Z") %in% c(NA, "00:00 EDT", "00:00 EST")))
  expect_lt(abs(as.numeric(mean(made$visit, na.rm = TRUE) - mean(table$visit, na.rm = TRUE))), 200)
  expect_s3_class(load_release(folder)[[1]]$visit, "Date")
  expect_s3_class(load_release(folder)[[1]]$taken, "POSIXct")
})

test_that("a table of visits goes in and comes back, and people are named", {
  needs_python()
  n <- 60
  level <- rnorm(n)
  table <- data.frame(id = rep(sample(1000:9999, n), each = 2), month = rep(c(0L, 6L), n))
  table$sex <- factor(rep(sample(c("f", "m"), n, TRUE), each = 2))
  table$pulse <- as.integer(round(70 + 5 * rep(level, each = 2) + rnorm(2 * n, 0, 4)))
  declared <- list(person = "id", visit = "month", visits = c(0, 6),
                   columns = list(sex = list(kind = "category", levels = c("f", "m"), once = TRUE), pulse = list(low = 20)))
  release <- synthesize(table, schema = declared)
  made <- release[[1]]
  expect_identical(names(made), names(table))
  same_kind(made, table, names(table))
  expect_identical(made$id, rep(seq_len(n), each = 2))
  expect_identical(made$month, table$month)
  found <- risk(table, release, mass = FALSE)
  expect_identical(found$person, unique(table$id))
})

test_that("dates are refused unless they are asked for as days", {
  needs_python()
  table <- every_kind()[c("sbp", "bmi", "visit", "taken")]
  expect_error(synthesize(table), "holds dates or times", class = "allbutone_input_error")
  expect_error(synthesize(table, dates = "weeks"), "\"days\"", class = "allbutone_input_error")
})

test_that("parameters and guarantees are asked for by Python's own names", {
  needs_python()
  expect_length(synthesize(clinic(), parameters = TRUE), 1)
  declared <- list(sbp = list(low = 60, high = 260, centre = 128, spread = 17),
                   bmi = list(low = 10, high = 80, centre = 26, spread = 4.5))
  private <- synthesize(clinic(200), schema = declared, epsilon = 3)
  expect_true(all(private[[1]]$sbp >= 60 & private[[1]]$sbp <= 260))
})
