#' allbutone: synthetic data about persons, with what each person stands to lose
#'
#' A thin face of the Python package of the same name. [describe()] looks at a table, [synthesize()] draws
#' synthetic versions of it, [risk()] plays the worst-case adversary against them, [budget()] says how much may be
#' released, [report()] writes the whole case, [check_release()] looks at what goes out. Errors are conditions of
#' class `allbutone_input_error`, with the `problem` and its `cures`.
#'
#' @keywords internal
"_PACKAGE"
