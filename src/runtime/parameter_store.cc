#include "strata/runtime/parameter_store.h"

namespace strata {

ParameterStore::~ParameterStore() = default;
ParameterStore::Table::~Table() = default;

}  // namespace strata
