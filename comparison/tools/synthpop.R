# synthpop's default (trees) on each table, and its own measure of disclosure.
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
said <- c()
for (name in arguments[-1]) {
  start <- proc.time()["user.self"]
  # <<< the lines that a user types
  library(synthpop)
  table <- read.csv(file.path(folder, paste0(name, ".csv")))
  drawn <- syn(table, print.flag = FALSE)
  unique_rows <- replicated.uniques(drawn, table)
  # >>>
  seconds <- proc.time()["user.self"] - start
  write.csv(drawn$syn, file.path(folder, paste0(name, "-synthpop.csv")), row.names = FALSE)
  # rows of the synthetic table that are unique in it and in the real one
  if (is.null(unique_rows$repU.rm)) stop("replicated.uniques of this synthpop names no repU.rm: its answer is unknown")
  replicated <- sum(unique_rows$repU.rm)
  said <- c(said, sprintf('"%s-synthpop": {"seconds": %.3f, "replicated": %d}', name, seconds, replicated))
}
cat("{", paste(said, collapse = ", "), "}\n", sep = "")
