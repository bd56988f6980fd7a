# synthpop's default (trees) on each table, and its own measure of disclosure: FOLDER KIND LIMIT TABLE...
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
kind <- arguments[2]
limit <- as.numeric(arguments[3])

made <- function(name) {
  start <- proc.time()["user.self"]
  setTimeLimit(cpu = limit, transient = TRUE)
  # <<< the lines that a user types
  library(synthpop)
  table <- read.csv(file.path(folder, paste0(name, ".csv")))
  drawn <- syn(table, print.flag = FALSE)
  unique_rows <- replicated.uniques(drawn, table)
  # >>>
  setTimeLimit()
  seconds <- proc.time()["user.self"] - start
  write.csv(drawn$syn, file.path(folder, paste0(name, "-", kind, ".csv")), row.names = FALSE, na = "")
  # rows of the synthetic table that are unique in it and in the real one
  if (is.null(unique_rows$repU.rm)) stop("replicated.uniques of this synthpop names no repU.rm: its answer is unknown")
  sprintf('{"seconds": %.3f, "replicated": %d}', seconds, sum(unique_rows$repU.rm))
}

failed <- function(problem) {
  setTimeLimit()
  words <- gsub("[[:cntrl:]]+", " ", conditionMessage(problem))
  sprintf('{"error": "%s"}', gsub("([\\\\\"])", "\\\\\\1", substr(words, 1, 150)))
}

said <- c()
for (name in arguments[-(1:3)]) {
  said <- c(said, sprintf('"%s-%s": %s', name, kind, tryCatch(made(name), error = failed)))
}
cat("{", paste(said, collapse = ", "), "}\n", sep = "")
