# strata_kernels(<list> stem ...)
# Kernels that are one source, <stem>.inc, compiled once for each instruction set and chosen at run time
# (src/core/cpu_isa.h). Writes a file <stem>_<isa>.cc for each of baseline, avx2 and avx512 into the build folder:
# it includes <stem>.inc with the macro STRATA_<STEM> as the name <stem>_<isa>. Appends these files to <list> and gives
# them their options, with which CMake also leaves them out of unity builds. Every variant must produce the same bits,
# so no contraction into fused multiply-adds; without errno and traps square roots and comparisons vectorise. -O3 in
# every preset: -O2 does not vectorise enough.
function(strata_kernels list)
  set(options -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math)
  set(variants baseline)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND variants avx2 avx512)
  endif()
  set(options_baseline "")
  set(options_avx2 -mavx2 -mfma)
  set(options_avx512 -mavx512f -mprefer-vector-width=512)
  file(RELATIVE_PATH module "${PROJECT_SOURCE_DIR}/src" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(files ${${list}})
  foreach(stem IN LISTS ARGN)
    get_filename_component(name ${stem} NAME)
    string(TOUPPER ${name} macro)
    foreach(variant IN LISTS variants)
      set(file "${CMAKE_CURRENT_BINARY_DIR}/${stem}_${variant}.cc")
      file(CONFIGURE OUTPUT "${file}" @ONLY
           CONTENT "#define STRATA_@macro@ @name@_@variant@\n#include \"@module@/@stem@.inc\"\n")
      set_source_files_properties("${file}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${options};${options_${variant}}")
      list(APPEND files "${file}")
    endforeach()
  endforeach()
  set(${list} ${files} PARENT_SCOPE)
endfunction()
