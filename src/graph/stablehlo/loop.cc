// Several steps a run. @main's loop carries the number of the step, each result of the step as it is so far, and
// nothing else: what stays the same is read from outside the loop.
#include "graph/stablehlo/loop.h"

#include <algorithm>

#include "graph/stablehlo/operations.h"
#include "strata/core/str_cat.h"

namespace strata::graph::stablehlo {
namespace {

Sizes stacked(int64_t steps, const Sizes& sizes) {
  Sizes result = {steps};
  result.insert(result.end(), sizes.begin(), sizes.end());
  return result;
}

std::string text_of(const std::vector<Array>& arrays, const auto& text) {
  std::string joined;
  for (const Array& each : arrays) joined += str_cat(joined.empty() ? "" : ", ", text(each));
  return joined;
}
std::string names_of(const std::vector<Array>& arrays) {
  return text_of(arrays, [](const Array& each) { return each.name; });
}
std::string types_of(const std::vector<Array>& arrays) {
  return text_of(arrays, [](const Array& each) { return type_of(each); });
}

/// ", %7, %0, %0, ...": the place of a step in a stacked array.
std::string place_of(const Array& step, const Array& zero, int64_t rank) {
  std::string text = ", " + step.name;
  for (int64_t a = 1; a < rank; ++a) text += ", " + zero.name;
  return text;
}
std::string place_types(const Array& step, int64_t rank) {
  std::string text;
  for (int64_t a = 0; a < rank; ++a) text += ", " + type_of(step);
  return text;
}

Array read_step(const Array& x, const Array& step, const Array& zero) {
  Sizes one = x.sizes;
  one[0] = 1;
  const Array part =
      x.program->emit(str_cat("stablehlo.dynamic_slice ", x.name, place_of(step, zero, x.rank()),
                              ", sizes = ", list_of(one), " : (", type_of(x),
                              place_types(step, x.rank()), ") -> ", type_of(x.dtype, one)),
                      x.dtype, one);
  return reshape(part, {x.sizes.begin() + 1, x.sizes.end()});
}

Array write_step(const Array& x, const Array& value, const Array& step, const Array& zero) {
  const Array part = reshape(value, stacked(1, value.sizes));
  return x.program->emit(str_cat("stablehlo.dynamic_update_slice ", x.name, ", ", part.name,
                                 place_of(step, zero, x.rank()), " : (", type_of(x), ", ",
                                 type_of(part), place_types(step, x.rank()), ") -> ", type_of(x)),
                         x.dtype, x.sizes);
}

}  // namespace

std::string loop_of(const Program& step, const std::vector<Array>& results, const Loop& loop) {
  Program main;
  std::vector<Array> arguments;
  for (size_t p = 0; p < step.parameters().size(); ++p) {
    const Array& each = step.parameters()[p];
    arguments.push_back(main.parameter(
        each.dtype, loop.is_input[p] ? stacked(loop.steps, each.sizes) : each.sizes));
  }
  const Array zero = main.scalar(int64_t{0}, at::kLong), one = main.scalar(int64_t{1}, at::kLong);
  const Array end = main.scalar(loop.steps, at::kLong);

  std::vector<Array> begin = {zero};
  for (size_t i = 0; i < results.size(); ++i) {
    const auto parameter = std::ranges::find(loop.next, static_cast<int64_t>(i));
    if (parameter != loop.next.end()) {
      begin.push_back(arguments[static_cast<size_t>(parameter - loop.next.begin())]);
    } else {
      const Sizes& sizes = results[i].sizes;
      begin.push_back(filled(main, 0, results[i].dtype,
                             i < loop.num_stacked ? stacked(loop.steps, sizes) : sizes));
    }
  }
  std::vector<Array> carried = begin;
  std::string bindings;
  for (size_t i = 0; i < carried.size(); ++i) {
    carried[i].name = main.unique();
    bindings += str_cat(i == 0 ? "" : ", ", carried[i].name, " = ", begin[i].name);
  }
  const std::string loop_name = main.unique();
  main.append(str_cat("    ", loop_name, ":", carried.size(), " = stablehlo.while(", bindings,
                      ") : ", types_of(carried), "\n    cond {\n"));
  const Array more = compare("LT", carried[0], end);
  main.append(str_cat("    stablehlo.return ", more.name, " : tensor<i1>\n    } do {\n"));

  std::vector<Array> given;
  for (size_t p = 0; p < arguments.size(); ++p) {
    if (loop.is_input[p]) {
      given.push_back(read_step(arguments[p], carried[0], zero));
    } else {
      const int64_t next = loop.next[p];
      given.push_back(next < 0 ? arguments[p] : carried[static_cast<size_t>(next) + 1]);
    }
  }
  std::vector<std::pair<at::ScalarType, Sizes>> types;
  for (const Array& each : results) types.emplace_back(each.dtype, each.sizes);
  const std::string call = str_cat("func.call @step(", names_of(given), ") : (", types_of(given),
                                   ") -> (", types_of(results), ")");
  std::vector<Array> made;
  if (types.size() == 1) {
    made = {main.emit(call, types[0].first, types[0].second)};
  } else {
    made = main.emit_all(call, types);
  }
  std::vector<Array> after = {carried[0] + one};
  for (size_t i = 0; i < made.size(); ++i) {
    after.push_back(i < loop.num_stacked ? write_step(carried[i + 1], made[i], carried[0], zero)
                                         : made[i]);
  }
  main.append(
      str_cat("    stablehlo.return ", names_of(after), " : ", types_of(after), "\n    }\n"));
  std::vector<Array> last;
  for (size_t i = 1; i < carried.size(); ++i) {
    last.push_back(carried[i]);
    last.back().name = str_cat(loop_name, "#", i);
  }
  return step.function("step", results) + main.function("main", last, loop.next);
}

}  // namespace strata::graph::stablehlo
