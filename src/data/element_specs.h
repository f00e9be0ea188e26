#pragma once

#include "data/source.h"

// What transforms do to element specs. Nullopt stays nullopt.
namespace strata::data::detail {

/// Of `rows` elements stacked; -1: may differ.
std::optional<ElementSpec> batched_spec(std::optional<ElementSpec> element, int64_t rows);

/// Of one row of a batch.
std::optional<ElementSpec> row_spec(std::optional<ElementSpec> batch);

/// Of elements with the fields of all, one behind the other.
std::optional<ElementSpec> joined_spec(const std::vector<SourcePtr>& sources);

/// Of elements that are one of these; nullopt if they differ in number of fields, dimensions or
/// dtype.
std::optional<ElementSpec> common_spec(const std::vector<SourcePtr>& sources);

ElementSpec spec_of(const Example& element);

uint64_t most_shuffles(const std::vector<SourcePtr>& sources);

}  // namespace strata::data::detail
