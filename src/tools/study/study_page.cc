// The page of a study: HTML with SVGs in it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <utility>

#include "simulate/chart.h"
#include "strata/core/str_cat.h"
#include "tools/study/page.h"
#include "tools/study/study_report.h"

namespace strata::tools {
namespace {

using simulate::escaped_markup;
using simulate::Series;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string percent(double part) { return fixed(100 * part, 1) + " %"; }

std::string strategy_name(const Configuration& c) {
  std::string name(word_of(c.strategy));
  if (c.strategy == StudyStrategy::kParameterServer) {
    name += str_cat(", ", word_of(c.placement), c.synchronous ? "" : ", asynchronous");
  }
  return c.is_synthetic() ? name : name + ", real images";
}

/// The points of one chart: of one network, as others but for strategy and data.
std::vector<std::vector<StudyPoint>> by_chart(const std::vector<StudyPoint>& points) {
  const auto common = [](const StudyPoint& point) {
    StudyPoint alike = point;
    Configuration& c = alike.measurement.configuration;
    c.strategy = StudyStrategy::kMirrored;
    c.placement = StudyPlacement::kGreedy;
    c.synchronous = true;
    c.data = kSynthetic;
    return alike;
  };
  std::vector<std::vector<StudyPoint>> charts;
  for (const StudyPoint& point : points) {
    const auto same = [&](const std::vector<StudyPoint>& chart) {
      return same_series(common(chart[0]), common(point));
    };
    const auto found = std::ranges::find_if(charts, same);
    if (found != charts.end()) {
      found->push_back(point);
    } else {
      charts.push_back({point});
    }
  }
  return charts;
}

/// A line a strategy, of its best points, by replicas.
struct Lines {
  std::vector<Series> rates;
  std::vector<Series> efficiencies;
  double most_rate = 0;
  double most_efficiency = 1;
};

Lines lines_of(const std::vector<StudyPoint>& chart) {
  Lines lines;
  Series ideal{.name = "ideal", .replicas = {}, .values = {}};
  for (const StudyPoint& point : chart) {
    if (!point.best) continue;
    const Measurement& m = point.measurement;
    const std::string name = strategy_name(m.configuration);
    auto rates = std::ranges::find(lines.rates, name, &Series::name);
    if (rates == lines.rates.end()) {
      lines.rates.push_back({.name = name, .replicas = {}, .values = {}});
      lines.efficiencies.push_back({.name = name, .replicas = {}, .values = {}});
      rates = lines.rates.end() - 1;
    }
    const Spread rate = spread_of(m.images_per_second);
    rates->replicas.push_back(m.configuration.replicas);
    rates->values.push_back(rate.median);
    rates->low.push_back(rate.low);
    rates->high.push_back(rate.high);
    lines.most_rate = std::max(lines.most_rate, rate.high);
    if (!point.efficiency) continue;
    Series& efficiencies = lines.efficiencies[static_cast<size_t>(rates - lines.rates.begin())];
    efficiencies.replicas.push_back(m.configuration.replicas);
    efficiencies.values.push_back(*point.efficiency);
    lines.most_efficiency = std::max(lines.most_efficiency, *point.efficiency);
    // The first strategy's speed of one replica, times the replicas.
    if (lines.rates.size() == 1 && point.speedup) {
      ideal.replicas.push_back(m.configuration.replicas);
      ideal.values.push_back(rate.median / *point.efficiency);
      lines.most_rate = std::max(lines.most_rate, ideal.values.back());
    }
  }
  // One point is no line.
  const auto as_dots = [](std::vector<Series>& all) {
    for (Series& each : all) each.points = each.values.size() < 2;
  };
  if (ideal.values.size() > 1) lines.rates.push_back(std::move(ideal));
  as_dots(lines.rates);
  as_dots(lines.efficiencies);
  return lines;
}

std::string row_name(const Configuration& c) {
  return str_cat(word_of(c.strategy), c.is_synthetic() ? "" : " real", " ", c.replicas,
                 c.servers > 0 ? str_cat(" + ", c.servers) : "");
}

std::string parts_chart(const std::vector<StudyPoint>& chart) {
  std::vector<simulate::Bar> bars;
  for (const StudyPoint& point : chart) {
    const Measurement& m = point.measurement;
    if (!point.best || !m.parts) continue;
    bars.push_back(
        {.name = row_name(m.configuration),
         .parts = {1e3 * m.input_seconds, 1e3 * m.parts->forward, 1e3 * m.parts->backward,
                   1e3 * m.parts->communication, 1e3 * m.parts->update}});
  }
  if (bars.empty()) return "";
  return str_cat(
      "<h3>Time of a step by part</h3>\n",
      simulate::bars_svg("Steps as they are written: replicas (+ servers)",
                         {"input", "forward", "backward", "exposed communication", "update"}, bars,
                         "ms"));
}

/// Images/s by servers, a line a number of replicas, where several numbers of servers were tried.
std::string servers_chart(const std::vector<StudyPoint>& chart) {
  std::vector<Series> series;
  double most = 0;
  for (const StudyPoint& point : chart) {
    const Measurement& m = point.measurement;
    if (m.configuration.servers == 0) continue;
    const int replicas = m.configuration.replicas;
    const std::string name = str_cat(replicas, replicas == 1 ? " replica, " : " replicas, ",
                                     word_of(m.configuration.placement));
    auto found = std::ranges::find(series, name, &Series::name);
    if (found == series.end()) {
      series.push_back({.name = name, .replicas = {}, .values = {}});
      found = series.end() - 1;
    }
    const Spread rate = spread_of(m.images_per_second);
    found->replicas.push_back(m.configuration.servers);
    found->values.push_back(rate.median);
    found->low.push_back(rate.low);
    found->high.push_back(rate.high);
    most = std::max(most, rate.high);
  }
  std::erase_if(series, [](const Series& each) { return each.values.size() < 2; });
  if (series.empty()) return "";
  return str_cat(
      "<h3>Numbers of parameter servers</h3>\n",
      simulate::chart_svg(
          "Images/s by parameter servers", series,
          {.most = simulate::round_up(most), .percent = false, .across = "parameter servers"}));
}

/// Without the columns that say nothing.
std::string table_of(const std::vector<StudyPoint>& chart) {
  struct Column {
    const char* name;
    std::vector<std::string> cells = {};
  };
  std::vector<Column> columns;
  for (const char* name : {"strategy", "replicas", "servers", "images/s", "least to most",
                           "speedup", "efficiency", "step, ms", "input, ms", "fullest server, MB",
                           "mean server, MB", "input loss", "of the limit", "of TensorFlow"}) {
    columns.push_back({.name = name});
  }
  for (const StudyPoint& point : chart) {
    const Measurement& m = point.measurement;
    const Spread rate = spread_of(m.images_per_second);
    auto column = columns.begin();
    const auto cell = [&](std::string value) { (column++)->cells.push_back(std::move(value)); };
    cell(escaped_markup(strategy_name(m.configuration)));
    cell(str_cat(m.configuration.replicas));
    cell(m.configuration.servers > 0 ? str_cat(m.configuration.servers) : "");
    cell(fixed(rate.median, 2));
    cell(fixed(rate.low, 2) + " to " + fixed(rate.high, 2));
    cell(point.speedup ? fixed(*point.speedup, 2) : "");
    cell(point.efficiency ? percent(*point.efficiency) : "");
    cell(fixed(1e3 * m.step_seconds(), 2));
    cell(fixed(1e3 * m.input_seconds, 2));
    std::string fullest, mean;
    if (!m.server_bytes.empty()) {
      fullest = fixed(static_cast<double>(std::ranges::max(m.server_bytes)) / 1e6, 2);
      mean = fixed(static_cast<double>(
                       std::accumulate(m.server_bytes.begin(), m.server_bytes.end(), int64_t{0})) /
                       1e6 / static_cast<double>(m.server_bytes.size()),
                   2);
    }
    cell(fullest);
    cell(mean);
    cell(point.synthetic_rate ? percent(*point.input_loss()) : "");
    cell(point.vs_limit ? fixed(point.vs_limit->median, 3) : "");
    cell(point.tensorflow ? fixed(point.tensorflow->quotient.median, 2) : "");
  }
  std::erase_if(columns, [](const Column& column) {
    return std::ranges::all_of(column.cells, &std::string::empty);
  });
  std::string text = "<table>\n<tr>";
  for (const Column& column : columns) text += str_cat("<th>", column.name, "</th>");
  text += "</tr>\n";
  for (size_t row = 0; row < chart.size(); ++row) {
    text += chart[row].best ? "<tr class=\"best\">" : "<tr>";
    for (const Column& column : columns) text += str_cat("<td>", column.cells[row], "</td>");
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

std::string section(const std::vector<StudyPoint>& chart) {
  const Measurement& first = chart[0].measurement;
  const Configuration& c = first.configuration;
  const Lines lines = lines_of(chart);
  return str_cat(
      "<h2>", escaped_markup(c.network), "</h2>\n<p class=\"of\">", c.batch, " images of ",
      c.image_size, " x ", c.image_size, " a replica, ", escaped_markup(c.dtype), ", ",
      escaped_markup(c.optimizer), ", ", first.parameters, " parameters. ", c.steps,
      " steps, timed ", c.repeat, " times after ", c.warmup, ".<br>",
      escaped_markup(first.processor), ", ", first.cores, first.cores == 1 ? " core" : " cores",
      c.threads > 0
          ? str_cat(", ", c.threads, c.threads == 1 ? " thread" : " threads", " a replica")
          : "",
      "</p>\n",
      simulate::chart_svg("Images/s, median and spread", lines.rates,
                          {.most = simulate::round_up(lines.most_rate), .percent = false}),
      "\n",
      simulate::chart_svg("Efficiency against ideal", lines.efficiencies,
                          {.most = lines.most_efficiency > 1
                                       ? std::max(1.25, simulate::round_up(lines.most_efficiency))
                                       : 1}),
      parts_chart(chart), servers_chart(chart), "<h3>All measurements</h3>\n", table_of(chart));
}

}  // namespace

std::string study_html(const std::vector<StudyPoint>& points) {
  std::string body;
  for (const std::vector<StudyPoint>& chart : by_chart(points)) body += section(chart);
  return html_page("How training scales", body +
                                              "<p class=\"of\">Of several numbers of servers the "
                                              "fastest (bold) counts. Parts of a step "
                                              "are measured on steps that run as they are written, "
                                              "which replays of graphs may undercut; "
                                              "the rates are of the steps as they run.</p>\n");
}

}  // namespace strata::tools
