# ccache and lld, where they are. Neither changes what is built.
find_program(STRATA_CCACHE ccache)
if(STRATA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The settings let precompiled headers and a second checkout hit the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      "${STRATA_CCACHE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)  # ccache needs it; it changes nothing else
  endif()
endif()

find_program(STRATA_LLD ld.lld)
if(STRATA_LLD)
  add_link_options(-fuse-ld=lld)
endif()
mark_as_advanced(STRATA_CCACHE STRATA_LLD)

# In a unity build GCC takes a source for a header, whose anonymous namespaces it warns of.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-subobject-linkage)
endif()
