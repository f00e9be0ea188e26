#include "simulate/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "strata/core/str_cat.h"

namespace strata::simulate {
namespace {

constexpr double kWidth = 760, kHeight = 420;
constexpr double kLeft = 56, kRight = 210, kTop = 40, kBottom = 48;
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73",
                                    "#cc79a7", "#e69f00", "#56b4e9"};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string text_of(double x, double y, const std::string& text, const char* anchor) {
  return str_cat("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">",
                 escaped_markup(text), "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2) {
  return str_cat("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2),
                 "\" y2=\"", number(y2), "\" stroke=\"#ddd\"/>\n");
}

/// The beginning of an SVG: white, with a title.
std::string begin_svg(double width, double height, const std::string& title) {
  return str_cat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
      "\" viewBox=\"0 0 ", width, " ", height, "\" font-family=\"sans-serif\" font-size=\"12\">\n",
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", text_of(kLeft, 22, title, "start"));
}

std::string square(double x, double y, const char* colour) {
  return str_cat("<rect x=\"", number(x), "\" y=\"", number(y),
                 "\" width=\"10\" height=\"10\" fill=\"", colour, "\"/>\n");
}

const char* colour_of(size_t index) { return kColours[index % std::size(kColours)]; }

/// A value of an axis: "0.25", "40".
std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  return text;
}

}  // namespace

double round_up(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0}) {
    if (factor * power >= value * (1 - 1e-12)) return factor * power;
  }
  return 10 * power;
}

std::string escaped_markup(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string chart_svg(const std::string& title, const std::vector<Series>& series,
                      const ValueAxis& axis) {
  double most = 2;
  for (const Series& one : series) {
    for (const double replicas : one.replicas) most = std::max(most, replicas);
  }
  const double doublings = std::ceil(std::log2(most) - 1e-9);
  const auto x_of = [&](double replicas) {
    return kLeft + (kWidth - kLeft - kRight) * std::log2(replicas) / doublings;
  };
  const auto y_of = [&](double value) {
    const double part = std::min(value / axis.most, 1.0);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * part;
  };
  std::string svg = begin_svg(kWidth, kHeight, title);
  for (int fifth = 0; fifth <= 5; ++fifth) {
    const double value = axis.most * fifth / 5;
    const double y = y_of(value);
    svg += line(kLeft, y, kWidth - kRight, y);
    svg +=
        text_of(kLeft - 6, y + 4, axis.percent ? shown(100 * value) + " %" : shown(value), "end");
  }
  for (int power = 0; power <= static_cast<int>(doublings); ++power) {
    const double x = x_of(std::exp2(power));
    svg += line(x, kTop, x, kHeight - kBottom);
    svg += text_of(x, kHeight - kBottom + 16, str_cat(1 << power), "middle");
  }
  svg += text_of((kLeft + kWidth - kRight) / 2, kHeight - 12, axis.across, "middle");
  std::vector<std::string> names;
  for (const Series& one : series) {
    auto found = std::ranges::find(names, one.name);
    const auto index = static_cast<size_t>(found - names.begin());
    const char* const colour = colour_of(index);
    if (found == names.end()) {
      names.push_back(one.name);
      const double y = kTop + 18.0 * static_cast<double>(index);
      svg += square(kWidth - kRight + 12, y - 9, colour);
      svg += text_of(kWidth - kRight + 28, y, one.name, "start");
    }
    std::string path;
    for (size_t i = 0; i < one.replicas.size(); ++i) {
      const std::string x = number(x_of(one.replicas[i]));
      const std::string y = number(y_of(one.values[i]));
      if (one.points) {
        svg += str_cat("<circle cx=\"", x, "\" cy=\"", y, "\" r=\"4\" fill=\"", colour, "\"/>\n");
      } else {
        path += str_cat(path.empty() ? "" : " ", x, ",", y);
      }
      if (i < one.low.size()) {
        svg += str_cat("<line x1=\"", x, "\" y1=\"", number(y_of(one.low[i])), "\" x2=\"", x,
                       "\" y2=\"", number(y_of(one.high[i])), "\" stroke=\"", colour,
                       "\" stroke-width=\"2\"/>\n");
      }
    }
    if (!path.empty()) {
      svg += str_cat("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"", colour, "\" points=\"",
                     path, "\"/>\n");
    }
  }
  return svg + "</svg>\n";
}

std::string bars_svg(const std::string& title, const std::vector<std::string>& parts,
                     const std::vector<Bar>& bars, const std::string& unit) {
  constexpr double kNames = 250, kRow = 24, kThickness = 16;
  double most = 0;
  for (const Bar& bar : bars) {
    most = std::max(most, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
  }
  most = round_up(most);
  const double bottom = kTop + kRow * static_cast<double>(bars.size());
  const auto x_of = [&](double value) {
    return kNames + (kWidth - kNames - kRight) * value / most;
  };
  const double height =
      std::max(bottom + kBottom, kTop + 18.0 * static_cast<double>(parts.size()) + 12);
  std::string svg = begin_svg(kWidth, height, title);
  for (int fifth = 0; fifth <= 5; ++fifth) {
    const double x = x_of(most * fifth / 5);
    svg += line(x, kTop, x, bottom);
    svg += text_of(x, bottom + 16, shown(most * fifth / 5), "middle");
  }
  svg += text_of((kNames + kWidth - kRight) / 2, bottom + 36, unit, "middle");
  for (size_t i = 0; i < parts.size(); ++i) {
    const double y = kTop + 18.0 * static_cast<double>(i);
    svg += square(kWidth - kRight + 12, y - 9, colour_of(i));
    svg += text_of(kWidth - kRight + 28, y, parts[i], "start");
  }
  for (size_t row = 0; row < bars.size(); ++row) {
    const double y = kTop + kRow * static_cast<double>(row) + (kRow - kThickness) / 2;
    svg += text_of(kNames - 8, y + kThickness - 4, bars[row].name, "end");
    double from = 0;
    for (size_t i = 0; i < bars[row].parts.size(); ++i) {
      const double to = from + bars[row].parts[i];
      svg += str_cat("<rect x=\"", number(x_of(from)), "\" y=\"", number(y), "\" width=\"",
                     number(x_of(to) - x_of(from)), "\" height=\"", number(kThickness),
                     "\" fill=\"", colour_of(i), "\"/>\n");
      from = to;
    }
  }
  return svg + "</svg>\n";
}

}  // namespace strata::simulate
