test_that("errors say their cures in R's words", {
  needs_python()
  table <- clinic()
  table$patient_id <- 100001:100060
  table$note <- paste("text", 1:60)
  error <- expect_error(synthesize(table), class = "allbutone_input_error")
  expect_match(conditionMessage(error), 'drop = c("patient_id", "note")', fixed = TRUE)
  expect_match(conditionMessage(error), "drop_unusable = TRUE", fixed = TRUE)
  expect_true("drop" %in% vapply(error$cures, `[[`, "", "argument"))
  expect_identical(as.character(conditionCall(error)[[1]]), "synthesize")
  # and the cure that is proposed is one
  cure <- Filter(function(one) one$argument == "drop", error$cures)[[1]]$code
  release <- eval(parse(text = paste0("synthesize(table, ", cure, ")")))
  expect_identical(names(release[[1]]), c("sbp", "bmi"))
})

test_that("what a table file would declare is declared in a list, and that helps", {
  needs_python()
  table <- clinic()
  table$seen <- as.Date("2021-06-01") + round(rnorm(60, 0, 200))
  table$ward_id <- rep(c("a", "b", "c"), 20)
  error <- expect_error(synthesize(table), class = "allbutone_input_error")
  expect_match(conditionMessage(error), 'dates = "days"', fixed = TRUE)
  codes <- vapply(Filter(function(one) one$argument == "schema", error$cures), `[[`, "", "code")
  expect_identical(codes, c('schema = list(seen = list(kind = "date"))', 'schema = list(ward_id = list(kind = "category"))'))
  both <- do.call(c, lapply(codes, function(code) eval(parse(text = code))))
  made <- synthesize(table, schema = both)[[1]]
  expect_s3_class(made$seen, "Date")
  expect_setequal(made$ward_id, table$ward_id)
})

test_that("gaps are refused with what to do about them", {
  needs_python()
  table <- with_gaps(clinic())
  error <- expect_error(synthesize(table), class = "allbutone_input_error")
  for (way in c('missing = "impute"', "complete_cases = TRUE")) expect_match(conditionMessage(error), way, fixed = TRUE)
  expect_false(anyNA(synthesize(table, complete_cases = TRUE)[[1]]))
})

test_that("arguments that would be misread are refused", {
  needs_python()
  expect_error(synthesize(clinic(), rows = NA), "holds NA", class = "allbutone_input_error")
  expect_error(synthesize(clinic(), 1, 20, "refuse", NULL, NULL, TRUE), "by name", class = "allbutone_input_error")
  expect_error(synthesize(clinic(), datasets = 2.5), "whole number", class = "allbutone_input_error")
  expect_error(synthesize(clinic(), colums = "sbp"), "colums", class = "allbutone_input_error")
  expect_error(risk(clinic(), 5), "synthesize", class = "allbutone_input_error")
})

test_that("what is misspelt is said, with what was meant", {
  needs_python()
  expect_error(synthesize(clinic(), colums = "sbp"), "no argument `colums`; did you mean `columns`", class = "allbutone_input_error")
  release <- synthesize(clinic())
  expect_error(risk(clinic(), release, adversary = list(knows = "sbp")), "mean `known`", class = "allbutone_input_error")
  expect_error(risk(clinic(), release, adversary = "sbp"), 'adversary = list(known = "sbp")', fixed = TRUE,
               class = "allbutone_input_error")
  expect_error(synthesize(clinic(), schema = 5), "list by column", class = "allbutone_input_error")
  expect_warning(synthesize(clinic(), schema = list(bmii = list(low = 0))), "bmii", class = "Caution")
})

test_that("NA and TRUE are no numbers", {
  needs_python()
  for (rows in list(NA, NA_real_, TRUE)) expect_error(budget(clinic(), rows = rows), "rows", class = "allbutone_input_error")
  expect_error(risk(clinic(), synthesize(clinic()), probability = NA), "holds NA", class = "allbutone_input_error")
})

test_that("a place that is none is said, and a release is no folder", {
  needs_python()
  release <- synthesize(clinic())
  expect_error(check_release(release), "save_release(release, folder)", fixed = TRUE, class = "allbutone_input_error")
  expect_error(load_release(5), "path", class = "allbutone_input_error")
  expect_error(save_release(clinic(), tempfile()), "got data.frame", class = "allbutone_input_error")
  kept <- tempfile()
  saveRDS(release, kept)
  expect_error(readRDS(kept)[[1]], "session that has ended", class = "allbutone_input_error")
})

test_that("a prior is the same by names, in any order, and in the order of the columns", {
  expect_identical(allbutone:::as_python(diag(2)), list(list(1, 0), list(0, 1)))
  named <- matrix(c(9, 2, 2, 225), 2, dimnames = list(c("bmi", "sbp"), c("bmi", "sbp")))
  expect_identical(allbutone:::as_python(list(scale = named, mean = c(bmi = 26, sbp = 128)))$scale$sbp,
                   list(bmi = 2, sbp = 225))
  needs_python()
  priors <- list(list(mean = c(bmi = 26, sbp = 128), scale = named),
                 list(mean = c(128, 26), scale = unname(named)[2:1, 2:1]))
  judged <- risk(clinic(), synthesize(clinic()), adversary = list(prior = priors[[1]]), mass = FALSE)
  again <- risk(clinic(), synthesize(clinic(), prior = priors[[2]]), mass = FALSE)
  expect_equal(judged$baseline_bmi, again$baseline_bmi, tolerance = 1e-10)
})

test_that("codes of missing values may be one", {
  needs_python()
  table <- clinic()
  table$bmi[1:3] <- -9
  expect_gt(min(synthesize(table, missing = "impute", missing_codes = -9)[[1]]$bmi), 0)
})

test_that("warnings of Python are conditions, too", {
  needs_python()
  table <- cbind(row_names = seq_len(60), clinic())
  expect_warning(synthesize(table), "row names", class = "Caution")
})

test_that("a name with a comma is one name", {
  needs_python()
  table <- stats::setNames(clinic(), c("sbp, mmHg", "bmi"))
  table$crp <- rnorm(60)
  expect_identical(names(synthesize(table, drop = "sbp, mmHg")[[1]]), c("bmi", "crp"))
})
