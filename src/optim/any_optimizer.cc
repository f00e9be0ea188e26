#include "strata/optim/any_optimizer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/join.h"
#include "strata/core/error.h"
#include "strata/optim/optimizers.h"

namespace strata::optimizers {
namespace {

struct Named {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)();
};

template <typename O>
std::unique_ptr<Optimizer> make() {
  return std::make_unique<O>();
}

constexpr std::array kNamed = {
    Named{"adadelta", make<Adadelta>}, Named{"adafactor", make<Adafactor>},
    Named{"adagrad", make<Adagrad>},   Named{"adam", make<Adam>},
    Named{"adamax", make<Adamax>},     Named{"adamw", make<AdamW>},
    Named{"ftrl", make<Ftrl>},         Named{"lamb", make<Lamb>},
    Named{"lion", make<Lion>},         Named{"nadam", make<Nadam>},
    Named{"rmsprop", make<RMSprop>},   Named{"sgd", make<SGD>}};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Named& each : kNamed) {
    if (each.name == lower) return each.make();
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[optimizers] make_optimizer: got '", name, "'; expected one of ",
                      join(kNamed, &Named::name)));
}

}  // namespace strata::optimizers
