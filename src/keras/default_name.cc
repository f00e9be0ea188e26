#include "keras/default_name.h"

#include <mutex>

#include "strata/keras/names.h"
#include "strata/keras_files/model_layout.h"

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

void clear_session() {
  const std::lock_guard lock(names().mutex);
  names().used = {};
}

}  // namespace strata::keras
