# Run with -P over the parser that ANTLR generated in FOLDER. Every decision of the grammar is made on one token, so that the
# tables for prediction serve only to say what would have fitted where a text is wrong: they are built then, and not at each start.
file(READ ${FOLDER}/ChainParser.cpp source)
if(source MATCHES "adaptivePredict")
  message(FATAL_ERROR "grammar/Chain.g4 has a decision that takes more than one token: let compiler/syntax/tokens.cpp mark what it hangs on")
endif()
# ANTLR before 4.10 builds them before main(); later ones write another text, which stays as it is.
file(READ ${FOLDER}/ChainParser.h header)
string(REPLACE "ChainParser::Initializer ChainParser::_init;" "" late_source "${source}")
string(REPLACE "static Initializer _init;" "" late_header "${header}")
string(REPLACE "getATN() const override { return _atn; }" "getATN() const override { static const Initializer once; return _atn; }"
               late_header "${late_header}")
if(NOT late_source STREQUAL source AND late_header MATCHES "static const Initializer once")
  file(WRITE ${FOLDER}/ChainParser.cpp "${late_source}")
  file(WRITE ${FOLDER}/ChainParser.h "${late_header}")
endif()
