test_that("a session goes from a data frame to verdict and report", {
  needs_python()
  table <- clinic()
  seen <- describe(table, out = file.path(tempdir(), "table.toml"), force = TRUE)
  expect_identical(seen$columns$column, names(table))
  expect_output(print(seen), "60 rows, 2 columns")
  release <- synthesize(table, datasets = 3)
  expect_output(print(release), "3 datasets of 60 rows")

  found <- risk(table, release, mass = FALSE)
  expect_identical(found$row, seq_len(60))
  expect_true(all(found$risk >= 0 & found$risk <= 1) && is.logical(found$disclosed))
  said <- paste(capture.output(print(found)), collapse = " ")
  for (words in c("The people closest to being disclosed", "knows the rest", "Membership: ")) expect_match(said, words)
  expect_lte(max(nchar(capture.output(print(found)))), 90)
  expect_output(str(found), "60 obs")
  expect_identical(class(found[1:3, ]), "data.frame")
  expect_identical(found[found$row <= 2, c("row", "risk")], as.data.frame(found)[1:2, c("row", "risk")])
  expect_identical(found["risk"], as.data.frame(found)["risk"])
  known <- risk(table, release, adversary = list(known = "bmi"), mass = FALSE)
  expect_true(all(known$riskiest == "sbp"))

  plan <- budget(table, rows = 60)
  expect_identical(plan$people$row, seq_len(60))
  expect_gte(plan$in_all, plan$count)
  expect_output(print(plan), "may be released")
  expect_match(capture.output(print(plan))[1], if (plan$count > 0) "^\u2714 " else "^\u2718 ")

  page <- report(table, release, file.path(tempdir(), "report.html"), force = TRUE, open = FALSE)
  expect_true(any(grepl("<html", readLines(page$path, n = 20, warn = FALSE), fixed = TRUE)))
  expect_type(page$may_go_out, "logical")
  expect_output(print(page), "Written")
  expect_error(report(table, release, page$path, open = FALSE), "exists", class = "allbutone_input_error")
})

test_that("the ten lines of the vignette go from a data frame to verdict and report, typed as they stand there", {
  needs_python()
  places <- c(test_path("../../vignettes/allbutone.Rmd"), system.file("doc", "allbutone.Rmd", package = "allbutone"))
  skip_if_not(any(file.exists(places)), "the vignette is not at hand")
  lines <- readLines(places[file.exists(places)][1])
  first <- grep("^```\\{r ten-lines\\}", lines) + 1
  code <- lines[first:(first + which(lines[-(1:first)] == "```")[1] - 1)]
  expect_length(code, 10)
  folder <- tempfile()
  dir.create(folder)
  writeLines(code, file.path(folder, "ten.R"))
  before <- setwd(folder)
  on.exit(setwd(before))
  said <- paste(system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "ten.R"), stdout = TRUE), collapse = " ")
  for (words in c("The people closest to being disclosed", "Membership: ", "Written: report.html")) {
    expect_match(said, words, fixed = TRUE)
  }
  expect_true(check_release("release")$clean)
})

test_that("a table file that describe() drafts is one that synthesize() takes", {
  needs_python()
  drafted <- tempfile(fileext = ".toml")
  describe(clinic(), out = drafted)
  made <- synthesize(clinic(), schema = drafted)[[1]]
  expect_identical(made$sbp, round(made$sbp, 1))
})

test_that("several releases are attacked together, in any order, drawn here or from a folder", {
  needs_python()
  table <- clinic()
  releases <- list(synthesize(table), synthesize(table, datasets = 2))
  folder <- file.path(tempdir(), "first")
  save_release(releases[[1]], folder, force = TRUE)
  together <- risk(table, releases, mass = FALSE)
  expect_equal(risk(table, list(releases[[2]], folder), mass = FALSE)$distance, together$distance, tolerance = 1e-6)
  for (one in releases) expect_gt(max(abs(risk(table, one, mass = FALSE)$distance - together$distance)), 1e-3)
})

test_that("results are drawn on R's device, and written as pages", {
  needs_python()
  table <- clinic()
  found <- risk(table, synthesize(table), mass = FALSE)
  grDevices::pdf(file <- tempfile(fileext = ".pdf"))
  expect_silent(plot(found))  # pdf() warns of letters that it does not know
  expect_silent(plot(found, "membership"))
  plan <- budget(table)
  expect_silent(plot(plan))
  grDevices::dev.off()
  expect_gt(file.size(file), 5000)
  plot(found, file = page <- tempfile(fileext = ".html"))
  expect_match(readLines(page, n = 1, warn = FALSE), "doctype")
  expect_error(plot(structure(list(), class = "allbutone_risk")), "part of a result")
  known <- risk(table, synthesize(table), adversary = list(lacking_records = 1), mass = FALSE)
  expect_error(plot(known, "membership"), "not judged", class = "allbutone_input_error")
})

test_that("the paper is made again", {
  needs_python()
  expect_silent(made <- paper_study(tempfile(), replicates = 2, datasets = 5))
  expect_true(file.exists(made$page))
  expect_gt(nrow(made$cells), 1000)
})
