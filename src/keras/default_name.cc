#include "keras/default_name.h"

#include <ATen/Context.h>

#include "core/mutex.h"
#include "keras_files/model_layout.h"
#include "strata/keras/layer.h"

namespace strata::keras {
namespace {

struct Names {
  Mutex mutex;
  keras_files::GroupNames used STRATA_GUARDED_BY(mutex);
};

Names& names() {
  static Names names;
  return names;
}

}  // namespace

std::string detail::default_name(std::string_view class_name) {
  const MutexLock lock(names().mutex);
  return names().used.next(class_name);
}

void set_random_seed(uint64_t seed) { at::manual_seed(seed); }

void clear_session() {
  const MutexLock lock(names().mutex);
  names().used = {};
}

}  // namespace strata::keras
