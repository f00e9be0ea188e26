#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Tables of text as Python's `rich` draws them: heavy head, lines between the rows.
namespace strata::keras::detail {

enum class Justify { kLeft, kRight, kCenter };

struct TableColumn {
  std::string title;
  Justify justify = Justify::kLeft;
  int64_t width = 0;  ///< Wanted, without the space at both sides.
};

/// Columns that do not fit into `width` become narrower, evenly; text is broken between words, and
/// words that are too long end in "…". UTF-8; every code point is one column wide.
/// Source: rich.table 14, box HEAVY_HEAD, show_lines.
std::string draw_table(const std::vector<TableColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, int64_t width);

/// Code points.
int64_t text_width(const std::string& text);
/// The first `width` code points.
std::string cut_text(const std::string& text, int64_t width);
/// Lines of `width` columns at most, broken between words; words that are longer are folded.
std::vector<std::string> wrap_text(const std::string& text, int64_t width);

}  // namespace strata::keras::detail
