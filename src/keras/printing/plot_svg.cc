#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "keras/printing/plot_graph.h"
#include "keras/printing/text_table.h"
#include "strata/core/str_cat.h"

namespace strata::keras::detail {
namespace {

constexpr double kTitleSize = 15;
constexpr double kTextSize = 13;
constexpr double kLetter = 0.6;  // width of a letter over its size, widely reckoned
constexpr double kPadding = 10;
constexpr double kTitleHeight = 30;
constexpr double kLineHeight = 26;
constexpr double kBetweenRanks = 44;
constexpr double kBetweenBoxes = 30;
constexpr double kMargin = 20;

/// A box or, on the way of an edge over several ranks, a bend. `along` runs with the ranks,
/// `across` within one.
struct Place {
  size_t rank = 0;
  double width = 0;   // across
  double depth = 0;   // along
  double across = 0;  // of the middle
  double along = 0;   // of the beginning
  std::vector<size_t> before = {};
  std::vector<size_t> after = {};
};

class Layout {
 public:
  Layout(const PlotGraph& graph, const std::vector<std::pair<double, double>>& sizes, bool turned)
      : places(graph.boxes.size()) {
    for (size_t i = 0; i < places.size(); ++i) {
      places[i].width = turned ? sizes[i].second : sizes[i].first;
      places[i].depth = turned ? sizes[i].first : sizes[i].second;
    }
    rank(graph);
    for (const auto& [from, to] : graph.edges) ways.push_back(make_way(from, to));
    order();
    spread();
    stack();
  }

  std::vector<Place> places;
  std::vector<std::vector<size_t>> ways;  ///< For each edge the places it passes through.
  double width = 0;
  double depth = 0;

 private:
  /// The longest way from an input. Edges lead from earlier boxes to later ones or back; the graph
  /// has no cycles.
  void rank(const PlotGraph& graph) {
    bool changed = true;
    for (size_t round = 0; changed && round <= places.size(); ++round) {
      changed = false;
      for (const auto& [from, to] : graph.edges) {
        if (places[to].rank <= places[from].rank) {
          places[to].rank = places[from].rank + 1;
          changed = true;
        }
      }
    }
  }

  std::vector<size_t> make_way(size_t from, size_t to) {
    std::vector<size_t> way = {from};
    for (size_t rank = places[from].rank + 1; rank < places[to].rank; ++rank) {
      Place bend;
      bend.rank = rank;
      bend.width = 4;
      way.push_back(places.size());
      places.push_back(std::move(bend));
    }
    way.push_back(to);
    for (size_t i = 1; i < way.size(); ++i) {
      places[way[i - 1]].after.push_back(way[i]);
      places[way[i]].before.push_back(way[i - 1]);
    }
    return way;
  }

  /// Fewer crossings: each rank by the mean place of its neighbours, down and up some times.
  void order() {
    for (size_t i = 0; i < places.size(); ++i) {
      ranks_.resize(std::max(ranks_.size(), places[i].rank + 1));
      ranks_[places[i].rank].push_back(i);
    }
    std::vector<double> position(places.size());
    const auto number = [&](const std::vector<size_t>& rank) {
      for (size_t i = 0; i < rank.size(); ++i) position[rank[i]] = static_cast<double>(i);
    };
    for (const auto& rank : ranks_) number(rank);
    for (int sweep = 0; sweep < 8; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t k = 0; k < ranks_.size(); ++k) {
        std::vector<size_t>& rank = ranks_[down ? k : ranks_.size() - 1 - k];
        std::vector<double> mean(places.size());
        for (const size_t i : rank) mean[i] = mean_of(i, down, position);
        std::ranges::stable_sort(rank, {}, [&](size_t i) { return mean[i]; });
        number(rank);
      }
    }
  }

  double mean_of(size_t i, bool down, const std::vector<double>& position) const {
    const std::vector<size_t>& neighbours = down ? places[i].before : places[i].after;
    if (neighbours.empty()) return position[i];
    double sum = 0;
    for (const size_t each : neighbours) sum += position[each];
    return sum / static_cast<double>(neighbours.size());
  }

  /// Places across: near the neighbours, without overlap.
  void spread() {
    for (const auto& rank : ranks_)
      pack(
          rank, [&](size_t) { return 0.0; }, true);
    for (int sweep = 0; sweep < 12; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t k = 0; k < ranks_.size(); ++k) {
        std::vector<double> across(places.size());
        for (size_t i = 0; i < places.size(); ++i) across[i] = places[i].across;
        pack(
            ranks_[down ? k : ranks_.size() - 1 - k],
            [&](size_t i) { return mean_of(i, down, across); }, false);
      }
    }
    double least = 0;
    double most = 0;
    for (const Place& place : places) {
      least = std::min(least, place.across - place.width / 2);
      most = std::max(most, place.across + place.width / 2);
    }
    for (Place& place : places) place.across -= least;
    width = most - least;
  }

  /// Puts a rank's places where they want to be, pushed apart; what was pushed right as a group is
  /// moved back by half.
  template <typename Wish>
  void pack(const std::vector<size_t>& rank, const Wish& wish, bool centred) {
    std::vector<double> at;
    double end = -1e18;
    for (const size_t i : rank) {
      const double left = std::max(end, wish(i) - places[i].width / 2);
      at.push_back(left);
      end = left + places[i].width + kBetweenBoxes;
    }
    double limit = 1e18;
    double shift = 0;
    if (centred && !rank.empty()) {
      shift = -(end - kBetweenBoxes - at[0]) / 2 - at[0];
    }
    // From the right, back towards the wish by half of the push, as far as there is room.
    for (size_t k = rank.size(); k-- > 0 && !centred;) {
      const double wanted = wish(rank[k]) - places[rank[k]].width / 2;
      const double back = (at[k] - wanted) / 2;
      const double before = k == 0 ? -1e18 : at[k - 1] + places[rank[k - 1]].width + kBetweenBoxes;
      at[k] =
          std::min(limit - places[rank[k]].width - kBetweenBoxes, std::max(before, at[k] - back));
      limit = at[k];
    }
    for (size_t k = 0; k < rank.size(); ++k) {
      places[rank[k]].across = at[k] + shift + places[rank[k]].width / 2;
    }
  }

  void stack() {
    for (const auto& rank : ranks_) {
      double most = 0;
      for (const size_t i : rank) most = std::max(most, places[i].depth);
      for (const size_t i : rank) {
        places[i].along = depth + (most - places[i].depth) / 2;
      }
      depth += most + kBetweenRanks;
    }
    depth -= kBetweenRanks;
  }

  std::vector<std::vector<size_t>> ranks_;
};

std::string number(double value) {
  std::array<char, 32> text = {};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string title_of(const PlotGraph::Box& box) {
  return box.name.empty() ? box.class_name : box.name + " (" + box.class_name + ")";
}

std::vector<std::string> lines_of(const PlotGraph::Box& box) {
  std::vector<std::string> lines;
  if (!box.activation.empty()) lines.push_back("Activation: " + box.activation);
  for (const auto& [what, value] : box.facts) lines.push_back(what + ": " + value);
  return lines;
}

std::pair<double, double> size_of(const PlotGraph::Box& box) {
  double width = static_cast<double>(text_width(title_of(box))) * kTitleSize * kLetter;
  const std::vector<std::string> lines = lines_of(box);
  for (const std::string& line : lines) {
    width = std::max(width, static_cast<double>(text_width(line)) * kTextSize * kLetter);
  }
  const auto rows = static_cast<double>(lines.size() + (box.trainable >= 0 ? 1 : 0));
  return {std::max(80.0, width + 2 * kPadding), kTitleHeight + rows * kLineHeight};
}

struct Point {
  double x;
  double y;
};

std::string rect(const Point& at, double width, double height, const std::string& style) {
  return str_cat("<rect x=\"", number(at.x), "\" y=\"", number(at.y), "\" width=\"", number(width),
                 "\" height=\"", number(height), "\" ", style, "/>\n");
}

std::string centred_text(const Point& at, double size, const std::string& style,
                         const std::string& text) {
  return str_cat("<text x=\"", number(at.x), "\" y=\"", number(at.y), "\" font-size=\"",
                 number(size), "\" text-anchor=\"middle\" ", style, ">", escape_markup(text),
                 "</text>\n");
}

std::string draw_box(const PlotGraph::Box& box, const Point& corner) {
  const auto [width, height] = size_of(box);
  const double middle = corner.x + width / 2;
  std::string text = rect(corner, width, height, R"(fill="white" stroke="black")");
  text += rect(corner, width, kTitleHeight, R"(fill="black")");
  text += centred_text({middle, corner.y + 20}, kTitleSize, R"(fill="white" font-weight="bold")",
                       title_of(box));
  double y = corner.y + kTitleHeight;
  for (const std::string& line : lines_of(box)) {
    text += centred_text({middle, y + 17}, kTextSize, R"(fill="black")", line);
    y += kLineHeight;
  }
  if (box.trainable >= 0) {
    const bool yes = box.trainable == 1;
    text += rect({corner.x, y}, width, kLineHeight,
                 yes ? R"(fill="forestgreen")" : R"(fill="firebrick")");
    text += centred_text({middle, y + 17}, kTextSize, R"(fill="white")",
                         yes ? "Trainable" : "Non-trainable");
  }
  return text;
}

}  // namespace

std::string to_svg(const PlotGraph& graph, bool left_to_right) {
  std::vector<std::pair<double, double>> sizes;
  for (const PlotGraph::Box& box : graph.boxes) sizes.push_back(size_of(box));
  const Layout layout(graph, sizes, left_to_right);
  const auto point = [&](double across, double along) {
    return left_to_right ? Point{along + kMargin, across + kMargin}
                         : Point{across + kMargin, along + kMargin};
  };
  const auto corner = [&](size_t i) {
    const Place& place = layout.places[i];
    return point(place.across - place.width / 2, place.along);
  };

  std::string body;
  for (size_t frame = 0; frame < graph.frames.size(); ++frame) {
    Point low = {1e18, 1e18};
    Point high = {-1e18, -1e18};
    for (size_t i = 0; i < graph.boxes.size(); ++i) {
      const std::vector<size_t>& frames = graph.boxes[i].frames;
      const auto found = std::ranges::find(frames, frame);
      if (found == frames.end()) continue;
      const double room = 8 + 4 * static_cast<double>(frames.end() - found - 1);
      const Point at = corner(i);
      low = {std::min(low.x, at.x - room), std::min(low.y, at.y - room - 14)};
      high = {std::max(high.x, at.x + sizes[i].first + room),
              std::max(high.y, at.y + sizes[i].second + room)};
    }
    if (low.x > high.x) continue;
    body += rect(low, high.x - low.x, high.y - low.y,
                 R"(fill="none" stroke="gray" stroke-dasharray="5,4")");
    body += str_cat("<text x=\"", number(low.x + 5), "\" y=\"", number(low.y + 12),
                    "\" font-size=\"11\" fill=\"gray\">", escape_markup(graph.frames[frame]),
                    "</text>\n");
  }
  for (const std::vector<size_t>& way : layout.ways) {
    Place at = layout.places[way[0]];
    Point from = point(at.across, at.along + at.depth);
    std::string path = str_cat("M", number(from.x), " ", number(from.y));
    for (size_t i = 1; i < way.size(); ++i) {
      const Place& next = layout.places[way[i]];
      const double start = at.along + at.depth;
      const double half = (start + next.along) / 2;
      const Point a = point(at.across, half);
      const Point b = point(next.across, half);
      const Point to = point(next.across, next.along);
      path += str_cat(" C", number(a.x), " ", number(a.y), " ", number(b.x), " ", number(b.y), " ",
                      number(to.x), " ", number(to.y));
      at = next;
    }
    body += str_cat("<path d=\"", path,
                    "\" fill=\"none\" stroke=\"black\" stroke-width=\"1.5\" "
                    "marker-end=\"url(#arrow)\"/>\n");
  }
  for (size_t i = 0; i < graph.boxes.size(); ++i) body += draw_box(graph.boxes[i], corner(i));

  const double across = layout.width + 2 * kMargin;
  const double along = layout.depth + 2 * kMargin;
  const std::string width = number(left_to_right ? along : across);
  const std::string height = number(left_to_right ? across : along);
  return str_cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"",
                 height, "\" viewBox=\"0 0 ", width, " ", height,
                 "\" font-family=\"Helvetica, Arial, sans-serif\">\n"
                 "<defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" "
                 "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
                 "<path d=\"M0 0 L10 5 L0 10 z\"/></marker></defs>\n"
                 "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                 body, "</svg>\n");
}

}  // namespace strata::keras::detail
