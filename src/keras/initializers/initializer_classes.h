#pragma once

#include <vector>

#include "keras/named_rule.h"
#include "strata/keras/initializers.h"

// The rows of the table of initializers, each file's its own.
namespace strata::initializers {

using Classes = keras::ClassRegistry<Initializer>;

std::vector<Classes::Class> constant_classes();
std::vector<Classes::Class> fourier_classes();
std::vector<Classes::Class> random_classes();
std::vector<Classes::Class> scaling_classes();

}  // namespace strata::initializers
