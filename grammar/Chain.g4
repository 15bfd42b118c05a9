// The ChainIO language. The AST builder in compiler/syntax is the only user of the parse tree.
grammar Chain;

file : item* EOF ;

item
    : importDecl
    | paramDecl
    | constDecl
    | appDecl
    | appItem                     // a library may declare classes without an app around them
    | recordDecl
    | textDecl
    | fnDecl
    | chainDecl
    | serviceDecl
    | probeDecl
    ;

importDecl  : IMPORT STRING (AS name)? (WITH '{' binding* '}')? ;
binding     : name '=' expr ;

// `param N = 31` is a constant, `param files idx = "*.idx"` a file class; an import or -D gives another value.
paramDecl   : PARAM (filesDecl | name '=' expr) ;
constDecl   : CONST name '=' expr ;

appDecl     : APP name '{' appItem* '}' ;
appItem     : matchExe | filesDecl | socketDecl | classDecl | batchDecl ;
matchExe    : MATCH EXE STRING ;
filesDecl   : FILES name '=' STRING ('{' fileAttr* '}')? ;
fileAttr
    : DIRECT                      # attrDirect
    | IMMUTABLE                   # attrImmutable
    | HEADER name                 # attrHeader
    | ROOT STRING                 # attrRoot
    | CACHE expr (LEVELS expr)?   # attrCache
    ;
socketDecl  : SOCKET name '=' (TCP | UDP) PORT expr ;
classDecl   : CLASS name '{' classAttr* '}' ;
classAttr
    : PRIORITY expr               # attrPriority
    | WEIGHT expr                 # attrWeight
    | SLO name expr               # attrSlo
    ;
batchDecl   : BATCH '{' batchAttr* '}' ;
batchAttr   : MIN expr | MAX expr | ADAPT ;

recordDecl  : RECORD name '{' field* '}' ;
field
    : LET name '=' expr                              # derivedField
    | UNDERSCORE ':' AT expr                         # skipField
    | (name | UNDERSCORE) ':' fieldType fieldMod*    # dataField
    ;
fieldType   : baseType ('[' expr (MAX expr)? ']')? ;
baseType
    : BYTES '(' MAX? expr ')'                        # bytesType
    | CSTR '(' MAX expr ')'                          # cstrType
    | BITS name '{' bitField* '}'                    # bitsType
    | qualified                                      # namedType
    ;
bitField    : (name | UNDERSCORE) ':' expr ;
fieldMod
    : AT expr                                        # modAt
    | WHEN expr                                      # modWhen
    | '==' expr                                      # modEquals
    | IN '{' enumItem (',' enumItem)* ','? '}'       # modEnum
    ;
enumItem    : expr name ;

textDecl    : TEXT name '{' textItem* '}' ;
textItem
    : STRING                                                          # textLiteral
    | name ':' name ('(' MAX expr ')')? textRepeat?                   # textCapture
    | name ':' '(' STRING ('|' STRING)* ')'                           # textChoice
    ;
textRepeat  : '[' expr '..' expr BY STRING ']' ;

// Functions are expanded where they are called; a parameter may stand for any value, views and arrays included.
fnDecl      : FN name '(' (name (',' name)*)? ')' ('=' expr | '{' fnLet* expr '}') ;
fnLet       : LET name '=' expr ;

chainDecl
    : CHAIN name (params | ON event) (IN CLASS name)? ('->' returnType)? (HOPS expr)? '{' chainItem* '}'
    ;
params      : '(' (param (',' param)*)? ')' ;
param       : name ':' (FILE qualified | baseType) ;
event       : (READ | OPEN | READY | PROBE) '(' qualified ')' AS name ;
returnType  : baseType ;
chainItem   : stateDecl | stepDecl | doneDecl | stmt ;
stateDecl   : STATE '{' stateVar* '}' ;
stateVar    : name ':' baseType ('=' expr)? ;
stepDecl    : STEP name '(' name ':' (BLOCK | qualified) (FROM expr)? (AT expr)? (FOR expr)? (IN name)? ')' block ;
doneDecl    : DONE block ;

block       : '{' stmt* '}' ;
stmt
    : LET name '=' expr (ELSE stmt)?                                  # letStmt
    | VAR name (':' baseType)? ('=' expr)?                            # varStmt
    | name '=' expr                                                   # assignStmt
    | IF expr block (ELSE (ifTail | block))?                          # ifStmt
    | WHEN expr (AS name)? block                                      # whenStmt
    | MATCH expr '{' matchArm* (ELSE (block | stmt))? '}'             # matchStmt
    | FOR name IN expr (MAX expr)? block                              # forStmt
    | (GOTO | NEXT) name AT expr (FOR expr)? (IN name)? (TAG expr)?   # gotoStmt
    | RETURN expr?                                                    # returnStmt
    | EMIT expr (',' expr)*                                           # emitStmt
    | FAIL name                                                       # failStmt
    | PREFETCH VIA expr                                               # prefetchViaStmt
    | PREFETCH expr (AT expr FOR expr)?                               # prefetchStmt
    | REPLY replyPart+                                                # replyStmt
    | BREAK                                                           # breakStmt
    | CONTINUE                                                        # continueStmt
    | postfix                                                         # callStmt
    ;
ifTail      : IF expr block (ELSE (ifTail | block))? ;
matchArm    : expr (',' expr)* block ;
replyPart   : expr (':' name)? ;

serviceDecl : SERVICE name ON endpoint (',' endpoint)* (IN CLASS name)? '{' serviceItem* '}' ;
endpoint    : (UDP | TCP) expr VIA name ;
serviceItem
    : REQUEST (UDP | TCP)? '{' field* '}'                             # requestItem
    | textDecl                                                        # textItemDecl
    | CACHE expr ENTRIES TTL expr (KEY expr)?                         # cacheItem
    | ON (REQUEST | MALFORMED) block                                  # handlerItem
    ;

probeDecl   : PROBE name '=' name STRING '(' (probeArg (',' probeArg)*)? ')' ;
probeArg    : name ':' baseType ;

expr
    : postfix                                        # postfixExpr
    | op=('-' | '!' | '~') expr                      # unaryExpr
    | expr AS name                                   # castExpr
    | expr op=('*' | '/' | '%') expr                 # binaryExpr
    | expr op=('+' | '-') expr                       # binaryExpr
    | expr op=('<<' | '>>') expr                     # binaryExpr
    | expr op='&' expr                               # binaryExpr
    | expr op='^' expr                               # binaryExpr
    | expr op='|' expr                               # binaryExpr
    | expr op=('<' | '<=' | '>' | '>=') expr         # binaryExpr
    | expr op=('==' | '!=') expr                     # binaryExpr
    | expr IN '(' expr (',' expr)* ')'               # inExpr
    | expr op='&&' expr                              # binaryExpr
    | expr op='||' expr                              # binaryExpr
    | <assoc=right> expr '?' expr ':' expr           # condExpr
    ;
postfix
    : primary                                        # primaryPostfix
    | postfix '.' name '(' args? ')'                 # methodCall
    | postfix '.' name                               # fieldAccess
    | postfix '[' expr ']'                           # indexAccess
    | postfix '[' expr? '..' expr? ']'               # sliceAccess
    ;
primary
    : INT                                            # intLiteral
    | STRING                                         # stringLiteral
    | (TRUE | FALSE)                                 # boolLiteral
    | BLOCK                                          # blockLiteral
    | name '(' args? ')'                             # callExpr
    | name                                           # nameExpr
    | '(' expr ')'                                   # parenExpr
    ;
args        : arg (',' arg)* ;
arg         : lambda | MAX expr | expr (BY (lambda | expr))? ;
lambda      : name '=>' expr ;

qualified   : name ('.' name)? ;

// Words of the language that are also fine names for fields, parameters and methods.
name
    : IDENT | MATCH | EXE | FILES | DIRECT | IMMUTABLE | HEADER | ROOT | CACHE | LEVELS | SOCKET | TCP | UDP | PORT | CLASS
    | PRIORITY | WEIGHT | SLO | BATCH | MIN | MAX | ADAPT | RECORD | BYTES | CSTR | BITS | TEXT | FILE | READ | OPEN | READY
    | HOPS | STATE | STEP | DONE | AT | TAG | KEY | ENTRIES | TTL | REQUEST | MALFORMED | ENDPOINT | VIA | AS | BY | FROM
    | PARAM | APP | SERVICE | PROBE | ON | WITH | NEXT | EMIT | REPLY | PREFETCH
    ;

IMPORT: 'import'; AS: 'as'; WITH: 'with'; PARAM: 'param'; CONST: 'const'; APP: 'app'; MATCH: 'match'; EXE: 'exe';
FILES: 'files'; DIRECT: 'direct'; IMMUTABLE: 'immutable'; HEADER: 'header'; ROOT: 'root'; CACHE: 'cache'; LEVELS: 'levels';
SOCKET: 'socket'; TCP: 'tcp'; UDP: 'udp'; PORT: 'port'; CLASS: 'class'; PRIORITY: 'priority'; WEIGHT: 'weight'; SLO: 'slo';
BATCH: 'batch'; MIN: 'min'; MAX: 'max'; ADAPT: 'adapt'; RECORD: 'record'; LET: 'let'; VAR: 'var'; BYTES: 'bytes';
CSTR: 'cstr'; BITS: 'bits'; WHEN: 'when'; TEXT: 'text'; FN: 'fn'; CHAIN: 'chain'; FILE: 'file'; ON: 'on'; READ: 'read';
OPEN: 'open'; READY: 'ready'; PROBE: 'probe'; HOPS: 'hops'; STATE: 'state'; STEP: 'step'; DONE: 'done'; BLOCK: 'block';
FROM: 'from'; AT: 'at'; FOR: 'for'; IN: 'in'; TAG: 'tag'; IF: 'if'; ELSE: 'else'; GOTO: 'goto'; NEXT: 'next';
RETURN: 'return'; EMIT: 'emit'; FAIL: 'fail'; PREFETCH: 'prefetch'; REPLY: 'reply'; BREAK: 'break'; CONTINUE: 'continue';
SERVICE: 'service'; VIA: 'via'; REQUEST: 'request'; MALFORMED: 'malformed'; ENTRIES: 'entries'; TTL: 'ttl'; KEY: 'key';
BY: 'by'; TRUE: 'true'; FALSE: 'false'; ENDPOINT: 'endpoint';

UNDERSCORE  : '_' ;
INT         : '0' [xX] [0-9a-fA-F_]+ | '0' [bB] [01_]+ | [0-9] [0-9_]* [a-zA-Z]* ;
STRING      : '"' ('\\' . | ~["\\\r\n])* '"' ;
IDENT       : [a-zA-Z_] [a-zA-Z0-9_]* ;
COMMENT     : '#' ~[\r\n]* -> channel(HIDDEN) ;
WS          : [ \t\r\n]+ -> skip ;
BAD         : . ;
