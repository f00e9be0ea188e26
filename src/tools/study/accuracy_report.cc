#include <algorithm>
#include <cstdio>

#include "simulate/chart.h"
#include "strata/core/str_cat.h"
#include "tools/study/accuracy.h"
#include "tools/study/page.h"

namespace strata::tools {
namespace {

std::string heading(const AccuracyResult& result) {
  const Configuration& c = result.configuration;
  char rate[32];
  std::snprintf(rate, sizeof rate, "%.6g", c.learning_rate);
  return str_cat(c.network, " on MNIST's images, ", c.optimizer, ", ", c.batch,
                 " images a replica, learning rate ", rate, " (", word_of(result.training.scaling),
                 " with the replicas), ", result.training.epochs,
                 result.training.epochs == 1 ? " epoch" : " epochs");
}

}  // namespace

std::string accuracy_table(const std::vector<AccuracyResult>& results) {
  std::string text =
      str_cat(heading(results.at(0)), "\n",
              "  strategy         replicas servers  batch  rate      accuracy  loss     seconds\n");
  for (const AccuracyResult& result : results) {
    const Configuration& c = result.configuration;
    char line[160];
    std::snprintf(line, sizeof line, "  %-16s %8d %7d %6lld  %-8.6g  %.4f    %.4f  %8.1f\n",
                  std::string(word_of(c.strategy)).c_str(), c.replicas, c.servers,
                  static_cast<long long>(result.global_batch()), result.learning_rate,
                  result.accuracy, result.loss, result.seconds);
    text += line;
  }
  return text;
}

std::string accuracy_html(const std::vector<AccuracyResult>& results) {
  std::vector<simulate::Series> lines;
  std::string rows;
  for (const AccuracyResult& result : results) {
    const Configuration& c = result.configuration;
    const std::string name(word_of(c.strategy));
    auto line = std::ranges::find(lines, name, &simulate::Series::name);
    if (line == lines.end()) {
      lines.push_back({.name = name, .replicas = {}, .values = {}});
      line = lines.end() - 1;
    }
    line->replicas.push_back(c.replicas);
    line->values.push_back(result.accuracy);
    char cells[240];
    std::snprintf(
        cells, sizeof cells,
        "<tr><td>%s</td><td>%d</td><td>%lld</td><td>%.6g</td><td>%.2f %%</td><td>%.4f</td>"
        "<td>%.1f</td></tr>\n",
        name.c_str(), c.replicas, static_cast<long long>(result.global_batch()),
        result.learning_rate, 100 * result.accuracy, result.loss, result.seconds);
    rows += cells;
  }
  for (simulate::Series& line : lines) line.points = line.values.size() < 2;
  return html_page(
      "Accuracy at scale",
      str_cat("<p class=\"of\">", simulate::escaped_markup(heading(results.at(0))), "</p>\n",
              simulate::chart_svg("Accuracy on the test images", lines),
              "<table>\n<tr><th>strategy</th><th>replicas</th><th>batch of all</th>"
              "<th>learning rate</th><th>accuracy</th><th>loss</th><th>seconds</th></tr>\n",
              rows, "</table>\n"));
}

}  // namespace strata::tools
