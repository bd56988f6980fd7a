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
