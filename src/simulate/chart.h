#pragma once

#include <string>
#include <vector>

namespace strata::simulate {

/// A line of a chart: a value by the number of replicas.
struct Series {
  std::string name;
  std::vector<double> replicas;
  std::vector<double> values;  ///< of efficiencies 1 is 100 %
  bool points = false;         ///< dots, as for measurements; else a line
  /// The least and the most of what a value is the median of, drawn as a line upright; empty: none.
  std::vector<double> low = {};
  std::vector<double> high = {};
};

/// The axis upright, from 0.
struct ValueAxis {
  double most = 1;                  ///< at its end; values beyond are drawn there
  bool percent = true;              ///< 1 is shown as 100 %
  std::string across = "replicas";  ///< what the other axis counts
};

/// An SVG of values, replicas on a logarithmic axis. Series of one name have one colour.
std::string chart_svg(const std::string& title, const std::vector<Series>& series,
                      const ValueAxis& axis = {});

/// One bar of a chart of bars.
struct Bar {
  std::string name;
  std::vector<double> parts;  ///< one behind the other
};

/// An SVG of bars that are cut into parts, a colour for each name of a part. @param unit  "ms".
std::string bars_svg(const std::string& title, const std::vector<std::string>& parts,
                     const std::vector<Bar>& bars, const std::string& unit);

/// The least of 1, 1.5, 2, 2.5, 3, 4, 5, 6 and 8 times powers of ten that is not below `value`, for
/// the end of an axis; 1 for 0.
double round_up(double value);

/// `text` with what has a meaning in HTML and SVG escaped.
std::string escaped_markup(const std::string& text);

}  // namespace strata::simulate
