// The ChainIO language. The AST builder in compiler/syntax is the only user of the parse tree.
//
// Nearly every decision is made on one token, so that the generated parser never has to warm up its prediction tables: binary
// operators are a flat list here and get their precedence in the builder, and the pass over the tokens (compiler/syntax/tokens.cpp)
// marks the few places where the meaning of a word hangs on its neighbours:
//   IN_SET       `in` before `(`: a set test; IN otherwise
//   BOUND        `max` that opens an argument and is followed by a value: `records(R, max 4)`
//   RETURN_BARE  `return` with no value on its line
//   PART, END    between the parts of a `reply`, and after the last one
//   RESULT       between the `let`s of a function and its value
//   IDENT        any word after a `.`, and `at` where it cannot be the keyword
// White space separates; the only places where a line's end matters are `return`, `reply` and the value of a function.
grammar Chain;

tokens { IN_SET, BOUND, RETURN_BARE, PART, END, RESULT }

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

importDecl  : IMPORT path=STRING (AS alias=word)? (WITH LBRACE bindings+=binding* RBRACE)? ;
binding     : word ASSIGN expr ;

// `param N = 31` is a constant, `param files idx = "*.idx"` a file class; an import or -D gives another value.
paramDecl   : PARAM (filesDecl | binding) ;
constDecl   : CONST binding ;

appDecl     : APP word LBRACE items+=appItem* RBRACE ;
appItem     : matchExe | filesDecl | socketDecl | classDecl | batchDecl ;
matchExe    : MATCH EXE STRING ;
filesDecl   : FILES word ASSIGN STRING (LBRACE attrs+=fileAttr* RBRACE)? ;
fileAttr
    : flag=(DIRECT | IMMUTABLE)
    | HEADER header=word
    | ROOT root=STRING
    | CACHE bytes=expr (LEVELS levels=expr)?
    ;
socketDecl  : SOCKET word ASSIGN proto=(TCP | UDP) PORT expr ;
classDecl   : CLASS word LBRACE attrs+=classAttr* RBRACE ;
classAttr   : kind=(PRIORITY | WEIGHT) expr | kind=SLO word expr ;
batchDecl   : BATCH LBRACE attrs+=batchAttr* RBRACE ;
batchAttr   : kind=(MIN | MAX) expr | kind=ADAPT ;

recordDecl  : RECORD word LBRACE fields+=field* RBRACE ;
field
    : LET word ASSIGN expr
    | (UNDERSCORE | word) COLON fieldBody
    ;
fieldBody   : skip=AT expr | fieldType (EQ equals=expr)? mods+=fieldMod* ;
fieldType   : baseType (LBRACK count=expr (MAX bound=expr)? RBRACK)? ;
baseType
    : BYTES LPAREN bound=BOUND? expr RPAREN
    | CSTR LPAREN (BOUND | MAX) expr RPAREN
    | BITS word LBRACE bits+=bitField* RBRACE
    | typeName
    ;
typeName    : first=typeWord (DOT second=IDENT)? ;
bitField    : (word | UNDERSCORE) COLON expr ;
// `== C` comes first; `at E == C` is read as `== C at E`, since an offset is never a truth value.
fieldMod
    : kind=(AT | WHEN) expr
    | kind=IN LBRACE enumItem (COMMA enumItem?)* RBRACE
    ;
enumItem    : expr word ;

textDecl    : TEXT word LBRACE items+=textItem* RBRACE ;
textItem
    : literal=STRING
    | word COLON (capture | LPAREN choices+=STRING (PIPE choices+=STRING)* RPAREN)
    ;
capture     : word (LPAREN (BOUND | MAX) expr RPAREN)? textRepeat? ;
textRepeat  : LBRACK low=expr DOTDOT high=expr BY STRING RBRACK ;

// Functions are expanded where they are called; a parameter may stand for any value, views and arrays included.
fnDecl      : FN name=word LPAREN (params+=word (COMMA params+=word)*)? RPAREN (ASSIGN value=expr | LBRACE fnBody RBRACE) ;
fnBody      : lets+=fnLet+ RESULT expr | expr ;
fnLet       : LET word ASSIGN expr ;

chainDecl
    : CHAIN name=word (LPAREN (params+=param (COMMA params+=param)*)? RPAREN | ON event)
      (IN CLASS class_=word)? (ARROW result=baseType)? (HOPS hops=expr)? LBRACE items+=chainItem* RBRACE
    ;
param       : word COLON paramType ;
paramType   : FILE qualified | baseType ;
event       : kind=(READ | OPEN | READY | PROBE) LPAREN qualified RPAREN AS word ;
chainItem   : stateDecl | stepDecl | doneDecl | stmt ;
stateDecl   : STATE LBRACE vars+=stateVar* RBRACE ;
stateVar    : word COLON stateType ;
stateType   : baseType (ASSIGN expr)? ;
stepDecl
    : STEP name=word LPAREN view=word COLON (BLOCK | qualified)
      (FROM from=expr)? (AT at=expr)? (FOR length=expr)? (IN file_=word)? RPAREN block
    ;
doneDecl    : DONE block ;

block       : LBRACE stmts+=stmt* RBRACE ;
stmt        : letStmt | varStmt | ifStmt | whenStmt | matchStmt | forStmt | leaf ;
letStmt     : LET localWord ASSIGN expr (ELSE (leaf | block))? ;
varStmt     : VAR localWord (COLON baseType)? (ASSIGN expr)? ;
// `else if` is a loop, not a recursion: a long chain of them costs no stack. Nothing follows an `else` without `if`.
ifStmt      : IF expr block elses+=elsePart* ;
elsePart    : ELSE (IF expr block | block) ;
// `when e as x`: the cast that ends the condition is the binding, since a condition is never cast.
whenStmt    : WHEN expr block ;
matchStmt   : MATCH expr LBRACE arms+=matchArm* (ELSE (block | leaf))? RBRACE ;
matchArm    : patterns+=expr (COMMA patterns+=expr)* block ;
forStmt     : FOR localWord (IN | IN_SET) over=expr (MAX bound=expr)? block ;

// The statements that hold no other one.
leaf
    : gotoStmt
    | returnStmt
    | emitStmt
    | failStmt
    | prefetchStmt
    | replyStmt
    | jump=(BREAK | CONTINUE)
    | actStmt
    ;
gotoStmt    : verb=(GOTO | NEXT) target=word (AT at=expr)? (FOR length=expr)? (IN file_=word)? (TAG tag=expr)? ;
returnStmt  : RETURN expr | RETURN_BARE ;
emitStmt    : EMIT values+=expr (COMMA values+=expr)* ;
failStmt    : FAIL word ;
prefetchStmt: PREFETCH (VIA call=expr | target=expr (AT at=expr FOR length=expr)?) ;
replyStmt   : REPLY parts+=replyPart ((PART | COMMA) parts+=replyPart)* END ;
replyPart   : expr (COLON word)? ;
actStmt     : localWord (ASSIGN expr | callArgs suffixes+=suffix* | suffixes+=suffix+) | BLOCK suffixes+=suffix+ ;

serviceDecl : SERVICE name=word ON endpoints+=endpoint (COMMA endpoints+=endpoint)* (IN CLASS class_=word)?
              LBRACE items+=serviceItem* RBRACE ;
endpoint    : proto=(UDP | TCP) expr VIA word ;
serviceItem : requestDecl | textDecl | cacheDecl | handlerDecl ;
requestDecl : REQUEST proto=(UDP | TCP)? LBRACE fields+=field* RBRACE ;
cacheDecl   : CACHE entries=expr ENTRIES TTL ttl=expr (KEY key=expr)? ;
handlerDecl : ON what=(REQUEST | MALFORMED | FAILURE) block ;

probeDecl   : PROBE name=word ASSIGN kind=word STRING LPAREN (args+=probeArg (COMMA args+=probeArg)*)? RPAREN ;
probeArg    : word COLON baseType ;

// Operators bind, tightest first: `- ! ~`, `as`, `* / %`, `+ -`, `<< >>`, `&`, `^`, `|`, `< <= > >=`, `== !=`, `in (…)`, `&&`, `||`,
// `? :` (right to left; a condition between `?` and `:` stands in parentheses).
expr        : parts+=flat (QUESTION parts+=flat COLON parts+=flat)* ;
flat        : operand tails+=tail* ;
tail
    : op=(STAR | SLASH | PERCENT | PLUS | MINUS | SHL | SHR | AMP | CARET | PIPE | LT | LE | GT | GE | EQ | NE | ANDAND | OROR) operand
    | set=IN_SET LPAREN choices+=expr (COMMA choices+=expr)* RPAREN
    ;
operand     : prefixes+=(MINUS | NOT | TILDE)* primary suffixes+=suffix* castTo* ;
castTo      : AS word ;
primary
    : literal=(INT | STRING | TRUE | FALSE | BLOCK)
    | word callArgs?
    | LPAREN expr RPAREN
    ;
suffix
    : DOT IDENT callArgs?
    | LBRACK (low=expr (dots=DOTDOT high=expr?)? | dots=DOTDOT high=expr?) RBRACK
    ;
callArgs    : LPAREN (args+=arg (COMMA args+=arg)*)? RPAREN ;
// In `x => e` the parameter is a plain word.
arg         : BOUND expr | value=expr (BY by=expr (FATARROW body=expr)? | FATARROW body=expr)? ;

qualified   : first=word (DOT second=IDENT)? ;

// Words of the language that are also fine names. Always reserved: import const let var when fn chain block for in if else goto
// return fail break continue true false as via files. A local name may not be a word that begins a statement, a type's name
// not one that begins a type.
word        : IDENT | sharedWord | (MATCH | EMIT | REPLY | PREFETCH | NEXT | STATE | STEP | DONE | TAG | BYTES | CSTR | BITS | FILE) ;
localWord   : IDENT | sharedWord | (BYTES | CSTR | BITS | FILE) ;
typeWord    : IDENT | sharedWord | (MATCH | EMIT | REPLY | PREFETCH | NEXT | STATE | STEP | DONE | TAG) ;
sharedWord
    : WITH | PARAM | APP | EXE | DIRECT | IMMUTABLE | HEADER | ROOT | CACHE | LEVELS | SOCKET | TCP | UDP | PORT | CLASS
    | PRIORITY | WEIGHT | SLO | BATCH | MIN | MAX | ADAPT | RECORD | TEXT | ON | READ | OPEN | READY | PROBE | HOPS | FROM
    | SERVICE | REQUEST | MALFORMED | FAILURE | ENTRIES | TTL | KEY | BY
    ;

// The front end's own scanner (compiler/syntax/scanner.cpp) reads these rules by hand, for speed; a test holds it to them.
IMPORT: 'import'; AS: 'as'; WITH: 'with'; PARAM: 'param'; CONST: 'const'; APP: 'app'; MATCH: 'match'; EXE: 'exe';
FILES: 'files'; DIRECT: 'direct'; IMMUTABLE: 'immutable'; HEADER: 'header'; ROOT: 'root'; CACHE: 'cache'; LEVELS: 'levels';
SOCKET: 'socket'; TCP: 'tcp'; UDP: 'udp'; PORT: 'port'; CLASS: 'class'; PRIORITY: 'priority'; WEIGHT: 'weight'; SLO: 'slo';
BATCH: 'batch'; MIN: 'min'; MAX: 'max'; ADAPT: 'adapt'; RECORD: 'record'; LET: 'let'; VAR: 'var'; BYTES: 'bytes';
CSTR: 'cstr'; BITS: 'bits'; WHEN: 'when'; TEXT: 'text'; FN: 'fn'; CHAIN: 'chain'; FILE: 'file'; ON: 'on'; READ: 'read';
OPEN: 'open'; READY: 'ready'; PROBE: 'probe'; HOPS: 'hops'; STATE: 'state'; STEP: 'step'; DONE: 'done'; BLOCK: 'block';
FROM: 'from'; AT: 'at'; FOR: 'for'; IN: 'in'; TAG: 'tag'; IF: 'if'; ELSE: 'else'; GOTO: 'goto'; NEXT: 'next';
RETURN: 'return'; EMIT: 'emit'; FAIL: 'fail'; PREFETCH: 'prefetch'; REPLY: 'reply'; BREAK: 'break'; CONTINUE: 'continue';
SERVICE: 'service'; VIA: 'via'; REQUEST: 'request'; MALFORMED: 'malformed'; FAILURE: 'failure'; ENTRIES: 'entries'; TTL: 'ttl'; KEY: 'key';
BY: 'by'; TRUE: 'true'; FALSE: 'false';

LBRACE: '{'; RBRACE: '}'; LPAREN: '('; RPAREN: ')'; LBRACK: '['; RBRACK: ']'; COMMA: ','; COLON: ':'; DOT: '.'; DOTDOT: '..';
QUESTION: '?'; ASSIGN: '='; ARROW: '->'; FATARROW: '=>'; STAR: '*'; SLASH: '/'; PERCENT: '%'; PLUS: '+'; MINUS: '-';
SHL: '<<'; SHR: '>>'; AMP: '&'; CARET: '^'; PIPE: '|'; TILDE: '~'; NOT: '!'; LT: '<'; LE: '<='; GT: '>'; GE: '>=';
EQ: '=='; NE: '!='; ANDAND: '&&'; OROR: '||';

UNDERSCORE  : '_' ;
INT         : [0-9] [0-9a-zA-Z_]* ;
STRING      : '"' ('\\' ~[\r\n] | ~["\\\r\n])* '"' ;
IDENT       : [a-zA-Z_] [a-zA-Z0-9_]* ;
COMMENT     : '#' ~[\r\n]* -> channel(HIDDEN) ;
WS          : [ \t\r\n]+ -> skip ;
BAD         : . ;
