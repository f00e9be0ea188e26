# strata_precompile(<target> [TORCH] [TEST])
# Unless STRATA_PCH is OFF, gives <target> a precompiled header: what most files include of the standard library, with TORCH of
# libtorch, with TEST of GoogleTest. Targets of the same kind share one. It takes 5 to 13 s to make, and saves 1 to 4 s a file.
# Files with options of their own want SKIP_PRECOMPILE_HEADERS.
function(strata_precompile target)
  if(NOT STRATA_PCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;TEST" "" "")
  get_target_property(type ${target} TYPE)
  string(TOLOWER ${type} pch)
  set(pch strata_pch_${pch})
  set(headers algorithm array atomic chrono cmath condition_variable cstdint cstring filesystem fstream functional iostream
              limits map memory mutex numeric optional random set span sstream stdexcept string string_view thread tuple
              utility variant vector)
  if(arg_TORCH)
    set(pch ${pch}_torch)
    list(APPEND headers ATen/core/Tensor.h ATen/TensorOperators.h)
  endif()
  if(arg_TEST)
    set(pch ${pch}_test)
    list(APPEND headers gtest/gtest.h)
  endif()
  if(NOT TARGET ${pch})
    add_library(${pch} OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/pch.cc")
    if(arg_TORCH)
      target_link_libraries(${pch} PRIVATE strata::torch)
      target_compile_definitions(${pch} PRIVATE AT_PER_OPERATOR_HEADERS)  # as tests and modules are compiled
    endif()
    if(arg_TEST)
      target_link_libraries(${pch} PRIVATE GTest::gtest)
      target_compile_options(${pch} PRIVATE ${STRATA_TEST_OPTIONS})
    endif()
    if(type STREQUAL "EXECUTABLE")  # as executables are compiled, or they could not use it
      set_target_properties(${pch} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${pch} PRIVATE -fPIE)
    endif()
    list(TRANSFORM headers REPLACE "^.+$" "<\\0>")
    target_precompile_headers(${pch} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# strata_precompile_heavy(<target>)
# For tests, programs that they start and examples whose sources include <torch/torch.h> or most of it: they have the options of
# tests and, unless STRATA_PCH is OFF, share a precompiled header of it and of GoogleTest. It takes 30 s to make, 4 s to read,
# and saves 10 to 15 s a file.
function(strata_precompile_heavy target)
  if(NOT STRATA_TESTS OR NOT STRATA_PCH)
    return()
  endif()
  if(NOT TARGET strata_test_pch)
    add_library(strata_test_pch OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/pch.cc")
    target_link_libraries(strata_test_pch PRIVATE strata::torch GTest::gtest)
    # As executables are compiled, or they could not use it.
    set_target_properties(strata_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(strata_test_pch PRIVATE -fPIE ${STRATA_TEST_OPTIONS})
    target_precompile_headers(strata_test_pch PRIVATE <torch/torch.h> <gtest/gtest.h>)
  endif()
  target_link_libraries(${target} PRIVATE strata::torch GTest::gtest)
  target_precompile_headers(${target} REUSE_FROM strata_test_pch)
endfunction()
