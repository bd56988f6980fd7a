test_that("Python is there where it must be", {
  skip_if_not(nzchar(Sys.getenv("ALLBUTONE_R_MUST_RUN")))
  expect_true(allbutone_available())
})

test_that("every kind of column crosses to Python and back as it was, gaps included", {
  needs_python()
  for (table in list(every_kind(), with_gaps(every_kind()))) {
    back <- there_and_back(table)
    expect_identical(names(back), names(table))
    for (name in setdiff(names(table), "taken")) {
      expect_identical(sorted_attributes(back[[name]]), sorted_attributes(table[[name]]))
      expect_identical(back[[name]], table[[name]], ignore_attr = TRUE, info = name)
    }
    # days and seconds are multiplied there and back: to the microsecond
    expect_equal(as.numeric(back$taken), as.numeric(table$taken), tolerance = 1e-14)
    expect_identical(sorted_attributes(back$taken), sorted_attributes(table$taken))
  }
})

test_that("no kind of NA becomes a value", {
  needs_python()
  table <- data.frame(a = c(NA, 1.5), b = c(NA_integer_, 3L), c = c(NA_character_, "NA"), d = c(NA, FALSE),
                      e = factor(c(NA, "x")), f = c(NaN, 2))
  back <- there_and_back(table)
  for (name in names(table)) expect_identical(is.na(back[[name]]), c(TRUE, FALSE), info = name)
  expect_identical(back$c[2], "NA")
})

test_that("text that is not marked as UTF-8 crosses as what it is, and other encodings are refused", {
  needs_python()
  # as read.csv() makes it of a file in UTF-8: the bytes alone
  place <- c(rawToChar(as.raw(c(0xc3, 0x85, 0x72, 0x68, 0x75, 0x73))), "Odense", NA)
  table <- data.frame(a = place, b = factor(place))
  expect_true(all(Encoding(table$a) == "unknown"))
  before <- Sys.getlocale("LC_CTYPE")
  on.exit(Sys.setlocale("LC_CTYPE", before))
  for (locale in c(before, "C")) {
    Sys.setlocale("LC_CTYPE", locale)
    back <- there_and_back(table)
    expect_identical(lapply(as.character(back$b), charToRaw), lapply(as.character(table$b), charToRaw))
    expect_identical(lapply(back$a, charToRaw), lapply(table$a, charToRaw))
  }
  table$a[1] <- rawToChar(as.raw(c(0xc5, 0x72)))
  table$b <- factor(table$a)
  error <- expect_error(allbutone:::crossing(table, "refuse", NULL), class = "allbutone_input_error")
  for (name in c("a", "b")) expect_match(conditionMessage(error), paste0("'", name, "' (holds|has).*iconv"))
})

test_that("levels that nobody has stay levels", {
  needs_python()
  table <- data.frame(x = factor(c("b", "b"), levels = c("c", "b", "a")))
  expect_identical(there_and_back(table)$x, table$x)
})

test_that("tibbles come back as tibbles, and an empty or short column as it is", {
  needs_python()
  skip_if_not_installed("tibble")
  table <- tibble::tibble(a = c(1.5, NA), `a b` = c("x", "y"))
  expect_identical(there_and_back(table), table)
  expect_identical(there_and_back(table[0, ])$a, numeric())
  expect_identical(there_and_back(table[1, ]), table[1, ])
})

test_that("haven's labels come back as haven makes them", {
  needs_python()
  skip_if_not_installed("haven")
  table <- data.frame(x = c(1, 2, 1, NA))
  table$x <- haven::labelled(table$x, c(no = 1, yes = 2), label = "Ever?")
  expect_equal(there_and_back(table)$x, table$x)
  # what stands for no value becomes a gap; the codebook stays as it is
  table$y <- haven::labelled_spss(c(1, 2, 9, 1), c(no = 1, yes = 2, refused = 9), na_values = 9)
  table$z <- haven::labelled_spss(c(-8, 2.5, 3.5, 1), c(unknown = -8), na_range = c(-9, -7))
  table$a <- haven::labelled(c("f", "m", "f", NA), c(Female = "f", Male = "m"))
  table$b <- haven::labelled(c(2L, 1L, 3L, 1L), c(low = 1L, high = 2L, high = 3L))
  back <- there_and_back(table)
  expect_identical(as.vector(unclass(back$y)), c(1, 2, NA, 1))
  expect_identical(as.vector(unclass(back$z)), c(NA, 2.5, 3.5, 1))
  for (name in c("y", "z")) expect_identical(sorted_attributes(back[[name]]), sorted_attributes(table[[name]]))
  for (name in c("a", "b")) expect_identical(back[[name]], table[[name]])
})

test_that("a level that is NA is a gap, and is that level again", {
  needs_python()
  table <- data.frame(x = addNA(factor(c("b", NA, "a", "b"), levels = c("b", "a"))))
  asked <- allbutone:::table_for(table, "refuse", NULL)
  expect_identical(asked$table$column(0L)$null_count, 1L)
  expect_identical(there_and_back(table)$x, table$x)
})

test_that("what keeps a table of people from being one is refused, all at once", {
  table <- data.frame(a = 1:3)
  table$pairs <- matrix(1:6, 3)
  table$lists <- list(1, 2, 3)
  table$z <- complex(3, 1, 1)
  error <- expect_error(allbutone:::crossing(table, "refuse", NULL), class = "allbutone_input_error")
  for (name in c("pairs", "lists", "z")) expect_match(conditionMessage(error), paste0("'", name, "'"))
  expect_error(allbutone:::crossing(1:3, "refuse", NULL), "data frame", class = "allbutone_input_error")
})

test_that("nothing of anybody is kept with a release but what columns are", {
  table <- clinic()
  attr(table$sbp, "na.action") <- 17L
  attr(table, "secret") <- "row names of people"
  kept <- unlist(allbutone:::prototype_of(table, "refuse"))
  expect_false(any(grepl("na.action|secret|people", c(names(kept), kept))))
})
