# Keras's files need HDF5 (C, with its high-level part), libzip and zlib (find_package(ZLIB) before this). Sets
# STRATA_KERAS_FILES, STRATA_KERAS_FILES_INCLUDES and STRATA_KERAS_FILES_LIBRARIES.
#
# Found by file, not by package: libzip's own CMake package is an error where its command-line tools are missing, and
# FindHDF5 wants a C compiler. Debian keeps HDF5 in folders of its own.
find_path(STRATA_HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial)
find_library(STRATA_HDF5_LIBRARY NAMES hdf5 PATH_SUFFIXES hdf5/serial)
find_library(STRATA_HDF5_HL_LIBRARY NAMES hdf5_hl PATH_SUFFIXES hdf5/serial)
find_path(STRATA_ZIP_INCLUDE zip.h)
find_library(STRATA_ZIP_LIBRARY NAMES zip)
mark_as_advanced(STRATA_HDF5_INCLUDE STRATA_HDF5_LIBRARY STRATA_HDF5_HL_LIBRARY STRATA_ZIP_INCLUDE STRATA_ZIP_LIBRARY)

set(STRATA_KERAS_FILES ON)
if(NOT STRATA_HDF5_INCLUDE OR NOT STRATA_HDF5_LIBRARY OR NOT STRATA_HDF5_HL_LIBRARY)
  message(STATUS "strata: no HDF5: Keras's files cannot be read or written (Debian: libhdf5-dev)")
  set(STRATA_KERAS_FILES OFF)
endif()
if(NOT STRATA_ZIP_INCLUDE OR NOT STRATA_ZIP_LIBRARY)
  message(STATUS "strata: no libzip: Keras's files cannot be read or written (Debian: libzip-dev)")
  set(STRATA_KERAS_FILES OFF)
endif()
if(NOT ZLIB_FOUND)
  set(STRATA_KERAS_FILES OFF)
endif()
set(STRATA_KERAS_FILES_INCLUDES ${STRATA_HDF5_INCLUDE} ${STRATA_ZIP_INCLUDE})
set(STRATA_KERAS_FILES_LIBRARIES
    ${STRATA_HDF5_HL_LIBRARY} ${STRATA_HDF5_LIBRARY} ${STRATA_ZIP_LIBRARY} ZLIB::ZLIB)
