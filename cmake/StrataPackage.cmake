# `cpack` makes the Debian package of the preset `package`; scripts/make_wheel.py makes a wheel of the same files.
if(NOT STRATA_PACKAGE)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME strata)
set(CPACK_PACKAGE_CONTACT "The strata authors <strata@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "tf.distribute.Strategy for C++ programs on libtorch")
set(CPACK_PACKAGE_DESCRIPTION "Headers, libstrata.so, a CMake package and the command strata: synchronous training on many
devices and machines, parameter servers, Keras's front end. libtorch is not part of it: `strata engine`
finds or downloads the version that it was built with.")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# The libraries that are linked, by their packages. libtorch has none: what is missing of it is not an error.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${StrataTorch_ROOT}/lib")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, cmake, ninja-build, python3-pip, iproute2, libcurl4")
include(CPack)
