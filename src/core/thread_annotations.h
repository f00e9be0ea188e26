#pragma once

/// Annotations of the data that each mutex protects, which clang checks (`make thread-safety`).
/// Under other compilers the macros are empty. On a lambda that runs with the mutex held,
/// STRATA_REQUIRES follows its
/// parameters: `[this]() STRATA_REQUIRES(mutex_) { return done_; }`.
/// Source: clang's documentation, "Thread Safety Analysis".
#if defined(__clang__)
#define STRATA_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define STRATA_THREAD_ANNOTATION(x)
#endif

/// Marks a data member that is read and written only with the mutex held.
#define STRATA_GUARDED_BY(mutex) STRATA_THREAD_ANNOTATION(guarded_by(mutex))
/// Marks a pointer member whose pointee, not itself, the mutex protects.
#define STRATA_PT_GUARDED_BY(mutex) STRATA_THREAD_ANNOTATION(pt_guarded_by(mutex))

/// Marks a function that is called with the mutex held, and that returns with it held.
#define STRATA_REQUIRES(...) STRATA_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// Marks a function that locks the mutex itself: the caller must not hold it.
#define STRATA_EXCLUDES(...) STRATA_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
/// Marks a function that returns with the mutex locked, or unlocked (its own object's without
/// argument).
#define STRATA_ACQUIRE(...) STRATA_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define STRATA_RELEASE(...) STRATA_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define STRATA_TRY_ACQUIRE(...) STRATA_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
/// Marks a function that returns a reference to the mutex.
#define STRATA_RETURN_CAPABILITY(mutex) STRATA_THREAD_ANNOTATION(lock_returned(mutex))
/// Marks a function that tells clang that the mutex is held, where clang cannot see it.
#define STRATA_ASSERT_CAPABILITY(mutex) STRATA_THREAD_ANNOTATION(assert_capability(mutex))

/// Marks a type that is a mutex, and one that holds a mutex during its lifetime.
#define STRATA_CAPABILITY(name) STRATA_THREAD_ANNOTATION(capability(name))
#define STRATA_SCOPED_CAPABILITY STRATA_THREAD_ANNOTATION(scoped_lockable)

/// Marks a function that clang does not check, with a comment that gives the reason.
#define STRATA_NO_THREAD_SAFETY_ANALYSIS STRATA_THREAD_ANNOTATION(no_thread_safety_analysis)
