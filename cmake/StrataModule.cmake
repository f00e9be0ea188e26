# The functions that every folder's CMakeLists.txt is written with. Files are listed, never globbed.
include(GNUInstallDirs)

# strata_module(NAME core [NO_TORCH]
#               PUBLIC_HEADERS error.h ...     in include/strata/<name>/
#               SOURCES error.cc ...           in src/<name>/
#               DEPENDS strata::core ...       what its public headers need
#               PRIVATE_DEPENDS ZLIB::ZLIB ... what only its sources need)
# Makes the static library strata_<name>, alias strata::<name>, installed and exported. Without SOURCES yet it is
# an interface library.
function(strata_module)
  cmake_parse_arguments(PARSE_ARGV 0 arg "NO_TORCH" "NAME" "PUBLIC_HEADERS;SOURCES;DEPENDS;PRIVATE_DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "strata_module(${arg_NAME}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target strata_${arg_NAME})
  if(arg_SOURCES)
    set(kind PUBLIC)
    add_library(${target} STATIC ${arg_SOURCES})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE_DEPENDS})
  else()
    set(kind INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(strata::${arg_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_NAME})
  target_compile_features(${target} ${kind} cxx_std_20)
  target_link_libraries(${target} ${kind} ${arg_DEPENDS})
  if(NOT arg_NO_TORCH)
    target_link_libraries(${target} ${kind} strata::torch)
  endif()

  list(TRANSFORM arg_PUBLIC_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/strata/${arg_NAME}/")
  target_sources(${target} ${kind} FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${arg_PUBLIC_HEADERS})
  install(TARGETS ${target} EXPORT strata-targets FILE_SET HEADERS)
  set_property(GLOBAL APPEND PROPERTY STRATA_MODULES ${arg_NAME})
endfunction()

# strata_test(NAME core SOURCES error_test.cc ... DEPENDS strata::core ... [LABELS unit] [TIMEOUT 120] [HEAVY])
# Makes one GoogleTest executable, strata_<name>_test; CTest runs each test suite in it as one test, <name>.<Suite>:
# fewer processes than one a test, since each start loads libtorch. HEAVY: the sources include <torch/torch.h>
# and share a precompiled one. Tests may include src/ ("data/shuffle.h") and tests/ ("support/...").
function(strata_test)
  if(NOT STRATA_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "HEAVY" "NAME;TIMEOUT" "SOURCES;DEPENDS;LABELS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "strata_test(${arg_NAME}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(target strata_${arg_NAME}_test)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} strata_test_main)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_compile_options(${target} PRIVATE ${STRATA_TEST_OPTIONS})
  if(arg_HEAVY AND STRATA_PCH)
    target_link_libraries(${target} PRIVATE strata::torch)
    target_precompile_headers(${target} REUSE_FROM strata_test_pch)
  endif()

  set(list_file "${CMAKE_CURRENT_BINARY_DIR}/${target}_tests.cmake")
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DEXECUTABLE=$<TARGET_FILE:${target}>" "-DPREFIX=${arg_NAME}" "-DLABELS=${arg_LABELS}"
            "-DTIMEOUT=${arg_TIMEOUT}" "-DENVIRONMENT=${arg_ENVIRONMENT}" "-DOUTPUT=${list_file}"
            -P "${PROJECT_SOURCE_DIR}/cmake/DiscoverTestSuites.cmake")
  # Not built: a failing test of its own, never silence.
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake"
       "if(EXISTS \"${list_file}\")\n  include(\"${list_file}\")\nelse()\n  add_test(${arg_NAME}_NOT_BUILT ${arg_NAME}_NOT_BUILT)\n  set_tests_properties(${arg_NAME}_NOT_BUILT PROPERTIES LABELS \"${arg_LABELS}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
endfunction()

# strata_example(NAME 01_mnist_mirrored [SOURCES main.cc] [DEPENDS ...] [TEST_ARGS ...] [WORKERS 2] [LABELS slow] [PASS_REGEX ...])
# Makes build/<preset>/examples/<name>; with TEST_ARGS, CTest runs it with them; with WORKERS, as so many processes.
function(strata_example)
  if(NOT STRATA_EXAMPLES)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT;PASS_REGEX;WORKERS" "SOURCES;DEPENDS;TEST_ARGS;LABELS")
  if(NOT arg_SOURCES)
    set(arg_SOURCES main.cc)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS example)
  endif()
  set(target strata_example_${arg_NAME})
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE strata::strata ${arg_DEPENDS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_NAME} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  if(arg_WORKERS AND NOT TARGET strata_command)
    return()  # no launcher
  endif()
  if(STRATA_TESTS AND arg_TEST_ARGS)
    if(arg_WORKERS)
      set(launcher $<TARGET_FILE:strata_command> launch -n ${arg_WORKERS} --)
    endif()
    add_test(NAME example.${arg_NAME} COMMAND ${launcher} $<TARGET_FILE:${target}> ${arg_TEST_ARGS})
    set_tests_properties(example.${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                         WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    if(arg_PASS_REGEX)
      set_tests_properties(example.${arg_NAME} PROPERTIES PASS_REGULAR_EXPRESSION "${arg_PASS_REGEX}")
    endif()
  endif()
endfunction()

# strata_bench(NAME step SOURCES ... DEPENDS ...)
# A benchmark program of its own, build/<preset>/benchmarks/<name>; suites of `strata bench` live in src/tools.
function(strata_bench)
  if(NOT STRATA_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPENDS")
  set(target strata_bench_${arg_NAME})
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_NAME} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/benchmarks")
endfunction()
