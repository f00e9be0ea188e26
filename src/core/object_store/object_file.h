#pragma once

#include <memory>

#include "core/object_store/store.h"
#include "strata/core/file_system.h"

namespace strata::object_store {

/// Reads blocks of 8 MiB and keeps the last ones; where they are read one after the other, the next
/// is fetched ahead.
/// @param info  Of the object: what is read is this one, or an error. @param store  Lives longer.
std::unique_ptr<ReadableFile> open_object(const Store& store, ObjectPath path, ObjectInfo info);

/// The object appears whole at `sync` and `close`, or is what it was: up to 8 MiB by one request,
/// more in parts, four of which may be on their way at a time. A file that is destroyed before
/// leaves nothing. What is appended after `sync` is sent together with all that was there, since
/// objects cannot grow. @param store Lives longer.
std::unique_ptr<WritableFile> create_object(const Store& store, ObjectPath path);

}  // namespace strata::object_store
