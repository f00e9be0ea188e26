// What the thread sanitizer does not see of libtorch's engine, whose thread for a card hands
// tensors, queues and ends of backward to other threads: reference counts and locks are inside
// libtorch. Only here, so that tests on CPUs, where that thread never runs, are told everything.

#if defined(__SANITIZE_THREAD__)
// By this name the sanitizer looks for it.
extern "C" __attribute__((visibility("default"))) const char*
__tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:c10::TensorImpl::~TensorImpl\n"
         "race:c10::detail::ListImpl::~ListImpl\n"
         "race:c10::ivalue::Future\n"
         "race:torch::autograd::Engine::\n";
}
#endif
