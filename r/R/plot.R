#' Draw a risk table or a budget
#'
#' Draws the package's own figure with R's graphics, on whatever device is open. With `file` the figure is written
#' instead: an interactive page that opens offline (`.html`), or a picture (`.png`, `.svg`; Chromium draws it).
#'
#' @param x What [risk()] or [budget()] returns.
#' @param what Of a risk table: `"values"`, how well the value of each person that comes closest to being disclosed
#'   is known, or `"membership"`, how sure one becomes that each person is in the table.
#' @param file Where to write the figure, if it is not to be drawn here.
#' @param ... Not used.
#' @return `x`, invisibly.
#' @examplesIf allbutone_available()
#' plot(budget(demo_cohort(), rows = 503))
#' @name plots
NULL

#' @rdname plots
#' @export
plot.allbutone_risk <- function(x, what = c("values", "membership"), file = NULL, ...) {
  figures <- attr(x, "shown")$figures
  what <- match.arg(what)
  if (!is.null(figures) && is.null(figures[[what]])) {
    stop_input("membership was not judged, so there is no figure of it", call = sys.call())
  }
  show_figure(x, figures[[what]], file)
}

#' @rdname plots
#' @export
plot.allbutone_budget <- function(x, file = NULL, ...) show_figure(x, x$shown$figure, file)

show_figure <- function(x, figure, file) {
  if (is.null(figure)) stop_input("this is a part of a result, which has no figure; plot the whole", call = sys.call(-1))
  if (is.null(file)) draw(ask("drawing", figure)) else ask("write", figure, path_for(file, sys.call(-1)))
  invisible(x)
}

# Draws a figure's parts: the title and the legend stand above the axes, each on lines of its own.
draw <- function(parts) {
  axes <- parts$axes
  below <- lines_of(axes$x$title)
  legend <- any(vapply(parts$marks, function(one) nzchar(one$name), NA))
  room <- 1.4 * graphics::par("din")[1] / graphics::par("cin")[1]  # letters that a line has: most are narrow
  title <- strwrap(parts$message, max(30, room))
  before <- graphics::par(mar = c(3.6 + below, 5, 1 + 1.2 * length(title) + 1.3 * legend, 1), las = 1)
  on.exit(graphics::par(before))
  graphics::plot.default(NA, xlim = unlist(axes$x$ends), ylim = unlist(axes$y$ends), axes = FALSE, ann = FALSE,
                         log = paste(c("x", "y")[c(axes$x$log, axes$y$log)], collapse = ""), xaxs = "i", yaxs = "i")
  for (one in parts$spans) draw_span(one, axes)
  for (one in parts$marks) draw_mark(one)
  draw_axis(1, axes$x)
  draw_axis(2, axes$y)
  graphics::box(bty = "l", col = "grey60")
  graphics::mtext(axes$x$title, 1, line = 2 + below, cex = 0.9)
  graphics::title(ylab = axes$y$title, line = 3.5)
  graphics::mtext(rev(title), 3, line = seq_along(title) * 1.2 - 0.9 + 1.3 * legend, adj = 0)
  for (one in parts$words) draw_words(one, axes)
  if (legend) draw_legend(parts$marks)
}

lines_of <- function(text) length(strsplit(text, "\n", fixed = TRUE)[[1]])

draw_axis <- function(side, axis) graphics::axis(side, unlist(axis$places), unlist(axis$labels), col = "grey60")

numbers_in <- function(bytes) readBin(bytes, "double", length(bytes) / 8, endian = "little")

draw_mark <- function(one) {
  x <- numbers_in(one$x)
  y <- numbers_in(one$y)
  colours <- unlist(one$colours)
  colour <- grDevices::adjustcolor(colours, alpha.f = one$opacity)
  if (!is.null(one$low)) graphics::segments(x, numbers_in(one$low), x, numbers_in(one$high), col = colour)
  switch(one$kind,
    points = if (one$symbol == "diamond") graphics::points(x, y, pch = 18, cex = 1.2, col = colour)
             else graphics::points(x, y, pch = 16, cex = 0.9, col = colour),
    area = graphics::polygon(x, y, col = colour, border = NA),
    bars = graphics::rect(x - one$size / 2, numbers_in(one$base), x + one$size / 2, y, col = colour, border = NA),
    line = graphics::lines(x, y, col = colour, lty = line_type(one$dash), lwd = one$size)
  )
}

# A line across the figure, or a band.
draw_span <- function(one, axes) {
  colour <- grDevices::adjustcolor(one$colour, alpha.f = one$opacity)
  if (one$low == one$high) {
    ends <- if (one$upright) list(v = one$low) else list(h = one$low)
    do.call(graphics::abline, c(ends, list(col = colour, lty = line_type(one$dash), lwd = 1.5)))
  } else if (one$upright) {
    graphics::rect(one$low, axes$y$ends[[1]], one$high, axes$y$ends[[2]], col = colour, border = NA)
  } else {
    graphics::rect(axes$x$ends[[1]], one$low, axes$x$ends[[2]], one$high, col = colour, border = NA)
  }
}

line_type <- function(dash) switch(dash, dash = "dashed", dot = "dotted", "solid")

# Words at a place, or at a share of the figure; pixels of a screen, 96 an inch, become inches.
draw_words <- function(one, axes) {
  x <- if (is.null(one$x)) graphics::grconvertX(one$across, "npc", "inches") else graphics::grconvertX(one$x, "user", "inches")
  y <- if (is.null(one$y)) graphics::grconvertY(one$up, "npc", "inches") else graphics::grconvertY(one$y, "user", "inches")
  at <- c(x + one$shift[[1]] / 96, y - one$shift[[2]] / 96)
  place <- function(x, y) list(graphics::grconvertX(x, "inches", "user"), graphics::grconvertY(y, "inches", "user"))
  here <- place(x, y)
  there <- place(at[1], at[2])
  side <- switch(one$side, left = 0, right = 1, 0.5)
  if (one$led) {  # up to the words, not through them
    away <- at - c(x, y)
    room <- c(graphics::strwidth(one$text, "inches", cex = 0.85), graphics::strheight(one$text, "inches", cex = 0.85)) / 2 + 0.03
    end <- place(at[1] - away[1] * min(1, room / abs(away)), at[2] - away[2] * min(1, room / abs(away)))
    graphics::segments(here[[1]], here[[2]], end[[1]], end[[2]], col = "grey60", xpd = NA)
  }
  graphics::text(there[[1]], there[[2]], one$text, adj = c(side, 0.5), cex = 0.85, col = one$colour, xpd = NA)
}

draw_legend <- function(marks) {
  named <- Filter(function(one) nzchar(one$name), marks)
  colours <- vapply(named, function(one) unlist(one$colours)[1], "")
  is_line <- vapply(named, function(one) one$kind == "line", NA)
  top <- graphics::grconvertY(graphics::grconvertY(1, "npc", "lines") + 1.5, "lines", "user")
  left <- graphics::grconvertX(0, "npc", "user")
  graphics::legend(left, top, vapply(named, `[[`, "", "name"), col = colours, bty = "n", cex = 0.85, horiz = TRUE,
                   xpd = NA, lty = ifelse(is_line, 1, NA), lwd = 2, pch = ifelse(is_line, NA, 16), x.intersp = 0.6)
}
