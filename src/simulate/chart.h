#pragma once

#include <string>
#include <vector>

namespace strata::simulate {

/// A line of a chart: efficiency by the number of replicas.
struct Series {
  std::string name;
  std::vector<double> replicas;
  std::vector<double> efficiency;  ///< 1 is 100 %
  bool points = false;             ///< dots, as for measurements; else a line
};

/// An SVG of efficiencies, replicas on a logarithmic axis. Series of one name have one colour.
std::string chart_svg(const std::string& title, const std::vector<Series>& series);

}  // namespace strata::simulate
