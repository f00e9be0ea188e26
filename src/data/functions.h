#pragma once

#include "data/source.h"
#include "strata/data/dataset.h"

namespace strata::data::detail {

SourcePtr make_map(SourcePtr input, MapFunction fn);
SourcePtr make_generator(GeneratorFactory factory);

}  // namespace strata::data::detail
