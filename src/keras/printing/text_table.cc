#include "keras/printing/text_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace strata::keras::detail {
namespace {

using Text = std::u32string;

Text decode(const std::string& utf8) {
  Text text;
  for (size_t i = 0; i < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    char32_t code = length == 1 ? lead : lead & (0xffu >> (length + 1));
    for (size_t k = 1; k < length && i + k < utf8.size(); ++k) {
      code = (code << 6) | (static_cast<unsigned char>(utf8[i + k]) & 0x3f);
    }
    text += code;
    i += length;
  }
  return text;
}

std::string encode(const Text& text) {
  std::string utf8;
  const auto put = [&](char32_t byte) { utf8 += static_cast<char>(byte); };
  for (const char32_t code : text) {
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | (code >> 6));
      put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | (code >> 12));
      put(0x80 | ((code >> 6) & 0x3f));
      put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | (code >> 18));
      put(0x80 | ((code >> 12) & 0x3f));
      put(0x80 | ((code >> 6) & 0x3f));
      put(0x80 | (code & 0x3f));
    }
  }
  return utf8;
}

bool is_space(char32_t code) { return code == U' '; }

/// Where to break, so that lines fit. Source: rich._wrap.divide_line.
std::vector<Text> divide(const Text& text, size_t width, bool fold) {
  std::vector<size_t> breaks;
  size_t offset = 0;  // in the line
  for (size_t start = 0; start < text.size();) {
    size_t end = start;  // spaces, a word, spaces
    while (end < text.size() && is_space(text[end])) ++end;
    while (end < text.size() && !is_space(text[end])) ++end;
    const size_t word_end = end;
    if (word_end == start || is_space(text[word_end - 1])) break;
    while (end < text.size() && is_space(text[end])) ++end;
    const size_t length = word_end - start;
    if (width >= offset + length) {
      offset += end - start;
    } else if (length > width && fold) {
      for (size_t at = start; at < end; at += width) {
        if (at > 0) breaks.push_back(at);
        offset = std::min(width, end - at);
      }
    } else if (length > width) {
      if (start > 0) breaks.push_back(start);
      offset = end - start;
    } else if (offset > 0 && start > 0) {
      breaks.push_back(start);
      offset = end - start;
    }
    start = end;
  }
  std::vector<Text> lines;
  size_t from = 0;
  for (const size_t at : breaks) {
    lines.push_back(text.substr(from, at - from));
    from = at;
  }
  lines.push_back(text.substr(from));
  return lines;
}

void strip_end(Text& text, size_t width) {
  while (text.size() > width && is_space(text.back())) text.pop_back();
}

std::vector<Text> cell_lines(const std::string& text, size_t width, Justify justify) {
  std::vector<Text> lines = divide(decode(text), width, /*fold=*/false);
  for (Text& line : lines) {
    strip_end(line, width);
    if (justify != Justify::kLeft) strip_end(line, 0);
    if (line.size() > width) line = line.substr(0, width - 1) + U'…';
    const size_t spare = width - line.size();
    const size_t left = justify == Justify::kRight    ? spare
                        : justify == Justify::kCenter ? spare / 2
                                                      : 0;
    line = Text(left, U' ') + line + Text(spare - left, U' ');
  }
  return lines;
}

/// With the space at both sides; together no wider than `room`, and filling it.
std::vector<int64_t> column_widths(const std::vector<TableColumn>& columns, int64_t room) {
  std::vector<int64_t> widths;
  for (const TableColumn& column : columns) widths.push_back(column.width + 2);
  const int64_t sum = std::accumulate(widths.begin(), widths.end(), int64_t{0});
  if (sum > room) {
    int64_t excess = sum - room;
    auto left = static_cast<int64_t>(widths.size());
    for (int64_t& width : widths) {
      // Python's round: halves to even.
      const auto share = static_cast<int64_t>(
          std::nearbyint(static_cast<double>(excess) / static_cast<double>(left--)));
      const int64_t taken = std::min(width, share);
      width -= taken;
      excess -= taken;
    }
  } else if (sum < room) {
    int64_t spare = room - sum;
    int64_t all = sum;
    for (int64_t& width : widths) {
      const int64_t share = (width * spare + all - 1) / all;
      all -= width;
      spare -= share;
      width += share;
    }
  }
  return widths;
}

struct Border {
  char32_t left, line, middle, right;
};

Text rule(const std::vector<int64_t>& widths, const Border& border) {
  Text text;
  for (size_t i = 0; i < widths.size(); ++i) {
    text += i == 0 ? border.left : border.middle;
    text += Text(static_cast<size_t>(widths[i]), border.line);
  }
  return text + border.right + U'\n';
}

Text draw_row(const std::vector<std::string>& cells, const std::vector<TableColumn>& columns,
              const std::vector<int64_t>& widths, char32_t wall) {
  std::vector<std::vector<Text>> lines;
  size_t height = 1;
  for (size_t i = 0; i < widths.size(); ++i) {
    const auto width = static_cast<size_t>(std::max<int64_t>(1, widths[i] - 2));
    lines.push_back(cell_lines(cells.at(i), width, columns[i].justify));
    height = std::max(height, lines.back().size());
  }
  Text text;
  for (size_t row = 0; row < height; ++row) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const auto width = static_cast<size_t>(std::max<int64_t>(1, widths[i] - 2));
      text += wall;
      text += U' ';
      text += row < lines[i].size() ? lines[i][row] : Text(width, U' ');
      text += U' ';
    }
    text += wall;
    text += U'\n';
  }
  return text;
}

}  // namespace

std::string draw_table(const std::vector<TableColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, int64_t width) {
  const std::vector<int64_t> widths =
      column_widths(columns, width - static_cast<int64_t>(columns.size()) - 1);
  std::vector<std::string> titles;
  for (const TableColumn& column : columns) titles.push_back(column.title);
  Text text = rule(widths, {U'┏', U'━', U'┳', U'┓'});
  text += draw_row(titles, columns, widths, U'┃');
  text += rule(widths, {U'┡', U'━', U'╇', U'┩'});
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) text += rule(widths, {U'├', U'─', U'┼', U'┤'});
    text += draw_row(rows[i], columns, widths, U'│');
  }
  text += rule(widths, {U'└', U'─', U'┴', U'┘'});
  return encode(text);
}

int64_t text_width(const std::string& text) { return static_cast<int64_t>(decode(text).size()); }

std::string cut_text(const std::string& text, int64_t width) {
  return encode(decode(text).substr(0, static_cast<size_t>(width)));
}

std::vector<std::string> wrap_text(const std::string& text, int64_t width) {
  std::vector<std::string> lines;
  for (Text line : divide(decode(text), static_cast<size_t>(width), /*fold=*/true)) {
    strip_end(line, static_cast<size_t>(width));
    lines.push_back(encode(line));
  }
  return lines;
}

}  // namespace strata::keras::detail
