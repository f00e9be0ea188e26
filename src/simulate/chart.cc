#include "simulate/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "strata/core/str_cat.h"

namespace strata::simulate {
namespace {

constexpr double kWidth = 720, kHeight = 420;
constexpr double kLeft = 56, kRight = 170, kTop = 40, kBottom = 48;
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73",
                                    "#cc79a7", "#e69f00", "#56b4e9"};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string text_of(double x, double y, const std::string& text, const char* anchor) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += c;
    }
  }
  return str_cat("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">",
                 escaped, "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2) {
  return str_cat("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2),
                 "\" y2=\"", number(y2), "\" stroke=\"#ddd\"/>\n");
}

}  // namespace

std::string chart_svg(const std::string& title, const std::vector<Series>& series) {
  double most = 2;
  for (const Series& one : series) {
    for (const double replicas : one.replicas) most = std::max(most, replicas);
  }
  const double doublings = std::ceil(std::log2(most) - 1e-9);
  const auto x_of = [&](double replicas) {
    return kLeft + (kWidth - kLeft - kRight) * std::log2(replicas) / doublings;
  };
  const auto y_of = [](double part) {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * part;
  };
  std::string svg = str_cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth,
                            "\" height=\"", kHeight, "\" viewBox=\"0 0 ", kWidth, " ", kHeight,
                            "\" font-family=\"sans-serif\" font-size=\"12\">\n",
                            "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                            text_of(kLeft, 22, title, "start"));
  for (int percent = 0; percent <= 100; percent += 20) {
    const double y = y_of(percent / 100.0);
    svg += line(kLeft, y, kWidth - kRight, y);
    svg += text_of(kLeft - 6, y + 4, str_cat(percent, " %"), "end");
  }
  for (int power = 0; power <= static_cast<int>(doublings); ++power) {
    const double x = x_of(std::exp2(power));
    svg += line(x, kTop, x, kHeight - kBottom);
    svg += text_of(x, kHeight - kBottom + 16, str_cat(1 << power), "middle");
  }
  svg += text_of((kLeft + kWidth - kRight) / 2, kHeight - 12, "replicas", "middle");
  std::vector<std::string> names;
  for (const Series& one : series) {
    auto found = std::ranges::find(names, one.name);
    const auto index = static_cast<size_t>(found - names.begin());
    const char* const colour = kColours[index % std::size(kColours)];
    if (found == names.end()) {
      names.push_back(one.name);
      const double y = kTop + 18.0 * static_cast<double>(index);
      svg += str_cat("<rect x=\"", kWidth - kRight + 12, "\" y=\"", number(y - 9),
                     "\" width=\"10\" height=\"10\" fill=\"", colour, "\"/>\n");
      svg += text_of(kWidth - kRight + 28, y, one.name, "start");
    }
    std::string path;
    for (size_t i = 0; i < one.replicas.size(); ++i) {
      const std::string x = number(x_of(one.replicas[i]));
      const std::string y = number(y_of(one.efficiency[i]));
      if (one.points) {
        svg += str_cat("<circle cx=\"", x, "\" cy=\"", y, "\" r=\"4\" fill=\"", colour, "\"/>\n");
      } else {
        path += str_cat(path.empty() ? "" : " ", x, ",", y);
      }
    }
    if (!path.empty()) {
      svg += str_cat("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"", colour, "\" points=\"",
                     path, "\"/>\n");
    }
  }
  return svg + "</svg>\n";
}

}  // namespace strata::simulate
