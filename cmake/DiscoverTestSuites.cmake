# Writes a CTest file with one test for each GoogleTest suite of EXECUTABLE. Called after the link by strata_test().
execute_process(COMMAND "${EXECUTABLE}" --gtest_list_tests
                OUTPUT_VARIABLE listing RESULT_VARIABLE status TIMEOUT 120)
if(NOT status EQUAL 0)
  file(REMOVE "${EXECUTABLE}")  # so that the next build tries again
  message(FATAL_ERROR "${EXECUTABLE} --gtest_list_tests failed: ${status}\n${listing}")
endif()
string(REGEX MATCHALL "(^|\n)[^ \n]+\\.[^\n]*" suites "${listing}")
set(text "")
foreach(line IN LISTS suites)
  string(REGEX REPLACE "^\n?([^ \n]+)\\..*$" "\\1" suite "${line}")
  string(APPEND text
    "add_test([==[${PREFIX}.${suite}]==] [==[${EXECUTABLE}]==] [==[--gtest_filter=${suite}.*]==])\n"
    "set_tests_properties([==[${PREFIX}.${suite}]==] PROPERTIES LABELS [==[${LABELS}]==] TIMEOUT ${TIMEOUT} SKIP_RETURN_CODE 77")
  if(ENVIRONMENT)
    string(APPEND text " ENVIRONMENT [==[${ENVIRONMENT}]==]")
  endif()
  string(APPEND text ")\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}")
