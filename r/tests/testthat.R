library(testthat)
library(allbutone)

test_check("allbutone")
