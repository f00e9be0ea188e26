#include "keras/default_name.h"

#include <ATen/Context.h>

#include <mutex>

#include "keras_files/model_layout.h"
#include "strata/keras/session.h"

namespace strata::keras {
namespace {

struct Names {
  std::mutex mutex;
  keras_files::GroupNames used;
};

Names& names() {
  static Names names;
  return names;
}

}  // namespace

std::string detail::default_name(std::string_view class_name) {
  const std::lock_guard lock(names().mutex);
  return names().used.next(class_name);
}

void set_random_seed(uint64_t seed) { at::manual_seed(seed); }

void clear_session() {
  const std::lock_guard lock(names().mutex);
  names().used = {};
}

}  // namespace strata::keras
