// The ChainIO language. The AST builder in compiler/syntax is the only user of the parse tree: what it takes has a label, and
// nothing else of the tree is kept.
//
// Every decision is made on one token, so that the generated parser needs no prediction (the build refuses others): binary
// operators are a flat list here and get their precedence in the builder, and the pass over the tokens (compiler/syntax/tokens.cpp)
// marks the few places where the meaning of a word hangs on its neighbours:
//   IN_SET       `in` before `(`: a set test; IN otherwise
//   LENGTH       `for` that gives the length of a read behind `goto` or `next`, and begins no loop
//   BOUND        `max` that opens an argument and is followed by a value: `records(R, max 4)`
//   RETURN_BARE  `return` with no value on its line
//   PART, END    between the parts of a `reply`, and after the last one
//   RESULT       between the `let`s of a function and its value
//   IDENT        any word after a `.`, `at` where it cannot be the keyword, and `skip` where it begins no statement
// White space separates; the only places where a line's end matters are `return`, `reply` and the value of a function.
grammar Chain;

tokens { IN_SET, LENGTH, BOUND, RETURN_BARE, PART, END, RESULT }

item
    : imported=importDecl
    | parameter=paramDecl
    | constant=constDecl
    | whole=appDecl
    | part=appItem                // a library may declare classes without an app around them
    | layout=recordDecl
    | rule_=textDecl
    | function=fnDecl
    | chain=chainDecl
    | service=serviceDecl
    | probe=probeDecl
    ;

importDecl  : IMPORT path=STRING (AS alias=word)? (WITH brace=LBRACE bindings+=binding* RBRACE)? ;
binding     : name=word ASSIGN value=expr ;

// `param N = 31` is a constant, `param files idx = "*.idx"` a file class; an import or -D gives another value.
paramDecl   : PARAM (files_=filesDecl | constant=binding) ;
constDecl   : CONST constant=binding ;

appDecl     : APP name=word brace=LBRACE items+=appItem* RBRACE ;
appItem     : exe=matchExe | files_=filesDecl | socket_=socketDecl | priority=classDecl | whole=batchDecl ;
matchExe    : MATCH EXE pattern=STRING ;
filesDecl   : FILES name=word ASSIGN pattern=STRING (LBRACE attrs+=fileAttr* RBRACE)? ;
fileAttr
    : flag=(DIRECT | IMMUTABLE | NO_READ_AHEAD)
    | HEADER header=word
    | ROOT root=STRING
    | INDEX index=expr
    | CACHE bytes=expr (LEVELS levels=expr)?
    ;
socketDecl  : SOCKET name=word ASSIGN proto=(TCP | UDP) PORT number=expr ;
classDecl   : CLASS name=word LBRACE attrs+=classAttr* RBRACE ;
classAttr   : kind=(PRIORITY | WEIGHT) value=expr | kind=SLO percentile=word value=expr ;
batchDecl   : BATCH LBRACE attrs+=batchAttr* RBRACE ;
batchAttr   : kind=(MIN | MAX) value=expr | kind=ADAPT ;

recordDecl  : RECORD name=word brace=LBRACE fields+=field* RBRACE ;
field
    : let=LET name=word ASSIGN value=expr
    | (UNDERSCORE | name=word) COLON body=fieldBody
    ;
fieldBody   : skip=AT offset=expr | type=fieldType (EQ equals=expr)? mods+=fieldMod* ;
fieldType   : base=baseType (LBRACK count=expr (MAX bound=expr)? RBRACK)? ;
baseType
    : kind=BYTES LPAREN bound=BOUND? length=expr RPAREN
    | kind=CSTR LPAREN (BOUND | MAX) length=expr (BY stop=expr)? RPAREN
    | kind=BITS base=word LBRACE bits+=bitField* RBRACE
    | named=typeName
    ;
typeName    : first=typeWord (DOT second=IDENT)? ;
bitField    : (name=word | UNDERSCORE) COLON width=expr ;
// `== C` comes first; `at E == C` is read as `== C at E`, since an offset is never a truth value.
fieldMod
    : kind=(AT | WHEN) value=expr
    | kind=IN LBRACE choices+=enumItem (COMMA (choices+=enumItem)?)* RBRACE
    ;
enumItem    : value=expr name=word ;

textDecl    : TEXT name=word brace=LBRACE items+=textItem* RBRACE ;
textItem
    : literal=STRING
    | name=word COLON (body=capture | LPAREN choices+=STRING (PIPE choices+=STRING)* RPAREN)
    ;
capture     : rule_=word (LPAREN (BOUND | MAX) bound=expr RPAREN)? repeat=textRepeat? ;
textRepeat  : LBRACK low=expr DOTDOT high=expr BY separator=STRING RBRACK ;

// Functions are expanded where they are called; a parameter may stand for any value, views and arrays included.
fnDecl      : FN name=word LPAREN (params+=word (COMMA params+=word)*)? RPAREN (ASSIGN value=expr | brace=LBRACE body=fnBody RBRACE) ;
fnBody      : lets+=fnLet+ RESULT result=expr | result=expr ;
fnLet       : LET name=word ASSIGN value=expr ;

chainDecl
    : CHAIN name=word (LPAREN (params+=param (COMMA params+=param)*)? RPAREN | ON trigger=event)
      (IN CLASS class_=word)? (ARROW result=baseType)? (HOPS hops=expr)? brace=LBRACE items+=chainItem* RBRACE
    ;
param       : name=word COLON type=paramType ;
paramType   : FILE file_=qualified | base=baseType ;
event       : kind=(READ | OPEN | READY | PROBE) LPAREN target=qualified RPAREN AS name=word ;
chainItem   : state=stateDecl | step=stepDecl | done=doneDecl | statement=stmt ;
stateDecl   : STATE LBRACE vars+=stateVar* RBRACE ;
stateVar    : name=word COLON type=stateType ;
stateType   : base=baseType (ASSIGN value=expr)? ;
stepDecl
    : STEP name=word LPAREN view=word COLON (BLOCK | record=qualified)
      (FROM from=expr)? (AT at=expr)? (FOR length=expr)? (IN file_=word)? RPAREN body=block
    ;
doneDecl    : DONE body=block ;

block       : LBRACE stmts+=stmt* RBRACE ;
stmt        : let=letStmt | var=varStmt | if_=ifStmt | when=whenStmt | match_=matchStmt | for_=forStmt | simple=leaf ;
letStmt     : LET name=localWord ASSIGN value=expr (ELSE (simple=leaf | otherwise=block))? ;
varStmt     : VAR name=localWord (COLON type=baseType)? (ASSIGN value=expr)? ;
// `else if` is a loop, not a recursion: a long chain of them costs no stack. Nothing follows an `else` without `if`.
ifStmt      : IF condition=expr yes=block elses+=elsePart* ;
elsePart    : ELSE (IF condition=expr yes=block | no=block) ;
// `when e as x`: the cast that ends the condition is the binding, since a condition is never cast.
whenStmt    : WHEN condition=expr body=block ;
matchStmt   : MATCH value=expr brace=LBRACE arms+=matchArm* (ELSE (otherwise=block | simple=leaf))? RBRACE ;
matchArm    : patterns+=expr (COMMA patterns+=expr)* body=block ;
forStmt     : FOR name=localWord (IN | IN_SET) over=expr (MAX bound=expr)? body=block ;

// The statements that hold no other one.
leaf
    : go=gotoStmt
    | back=returnStmt
    | emit=emitStmt
    | fail=failStmt
    | fetch=prefetchStmt
    | mark=markStmt
    | answer=replyStmt
    | skip=skipStmt
    | jump=(BREAK | CONTINUE)
    | act=actStmt
    ;
gotoStmt    : verb=(GOTO | NEXT) target=word (AT at=expr)? (LENGTH length=expr)? (IN file_=word)? (TAG tag=expr)? ;
returnStmt  : RETURN value=expr | RETURN_BARE ;
emitStmt    : EMIT values+=expr (COMMA values+=expr)* ;
failStmt    : FAIL reason=word ;
prefetchStmt: PREFETCH (VIA call=expr | target=expr (AT at=expr FOR length=expr)?) ;
markStmt    : MARK target=expr (AT at=expr)? (WITH value=expr | VIA call=expr) ;
replyStmt   : REPLY parts+=replyPart ((PART | COMMA) parts+=replyPart)* END ;
replyPart   : value=expr (COLON format=word)? ;
skipStmt    : SKIPS amount=expr ;
actStmt     : name=localWord (ASSIGN value=expr | call=callArgs suffixes+=suffix* | suffixes+=suffix+) | whole=BLOCK suffixes+=suffix+ ;

serviceDecl : SERVICE name=word ON endpoints+=endpoint (COMMA endpoints+=endpoint)* (IN CLASS class_=word)?
              brace=LBRACE items+=serviceItem* RBRACE ;
endpoint    : proto=(UDP | TCP) number=expr VIA engine=word ;
serviceItem : request=requestDecl | rule_=textDecl | cache=cacheDecl | handler=handlerDecl ;
requestDecl : REQUEST proto=(UDP | TCP)? brace=LBRACE fields+=field* RBRACE ;
cacheDecl   : CACHE entries=expr ENTRIES TTL ttl=expr (KEY key=expr)? ;
handlerDecl : ON what=(REQUEST | MALFORMED | FAILURE | DATAGRAM) body=block ;

probeDecl   : PROBE name=word ASSIGN kind=word site=STRING LPAREN (args+=probeArg (COMMA args+=probeArg)*)? RPAREN ;
probeArg    : name=word COLON type=baseType ;

// Operators bind, tightest first: `- ! ~`, `as`, `* / %`, `+ -`, `<< >>`, `&`, `^`, `|`, `< <= > >=`, `== !=`, `in (…)`, `&&`, `||`,
// `? :` (right to left; a condition between `?` and `:` stands in parentheses).
expr        : parts+=flat (QUESTION parts+=flat COLON parts+=flat)* ;
flat        : first=operand tails+=tail* ;
tail
    : op=(STAR | SLASH | PERCENT | PLUS | MINUS | SHL | SHR | AMP | CARET | PIPE | LT | LE | GT | GE | EQ | NE | ANDAND | OROR) right=operand
    | set=IN_SET LPAREN choices+=expr (COMMA choices+=expr)* RPAREN
    ;
operand     : prefixes+=(MINUS | NOT | TILDE)* base=primary suffixes+=suffix* casts+=castTo* ;
castTo      : AS type=word ;
primary
    : literal=(INT | STRING | TRUE | FALSE | BLOCK)
    | name=word call=callArgs?
    | LPAREN inner=expr RPAREN
    ;
suffix
    : DOT member=IDENT call=callArgs?
    | LBRACK (low=expr (dots=DOTDOT high=expr?)? | dots=DOTDOT high=expr?) RBRACK
    ;
callArgs    : LPAREN (args+=arg (COMMA args+=arg)*)? RPAREN ;
// In `x => e` the parameter is a plain word.
arg         : BOUND bound=expr | value=expr (BY by=expr (FATARROW body=expr)? | FATARROW body=expr)? ;

qualified   : first=word (DOT second=IDENT)? ;

// Words of the language that are also fine names. Always reserved: import const let var when fn chain block for in if else goto
// return fail break continue true false as via files. A local name may not be a word that begins a statement, a type's name
// not one that begins a type.
word        : IDENT | sharedWord | (MATCH | EMIT | REPLY | PREFETCH | MARK | NEXT | STATE | STEP | DONE | TAG | BYTES | CSTR | BITS | FILE) ;
localWord   : IDENT | sharedWord | (BYTES | CSTR | BITS | FILE) ;
typeWord    : IDENT | sharedWord | (MATCH | EMIT | REPLY | PREFETCH | MARK | NEXT | STATE | STEP | DONE | TAG) ;
sharedWord
    : WITH | PARAM | APP | EXE | DIRECT | IMMUTABLE | NO_READ_AHEAD | HEADER | ROOT | INDEX | CACHE | LEVELS | SOCKET | TCP | UDP
    | PORT | CLASS | PRIORITY | WEIGHT | SLO | BATCH | MIN | MAX | ADAPT | RECORD | TEXT | ON | READ | OPEN | READY | PROBE | HOPS | FROM
    | SERVICE | REQUEST | MALFORMED | FAILURE | DATAGRAM | ENTRIES | TTL | KEY | BY
    ;

// The front end's own scanner (compiler/syntax/scanner.cpp) reads these rules by hand, for speed; a test holds it to them.
IMPORT: 'import'; AS: 'as'; WITH: 'with'; PARAM: 'param'; CONST: 'const'; APP: 'app'; MATCH: 'match'; EXE: 'exe';
FILES: 'files'; DIRECT: 'direct'; IMMUTABLE: 'immutable'; NO_READ_AHEAD: 'no_read_ahead'; HEADER: 'header'; ROOT: 'root'; INDEX: 'index';
CACHE: 'cache'; LEVELS: 'levels'; SOCKET: 'socket'; TCP: 'tcp'; UDP: 'udp'; PORT: 'port'; CLASS: 'class'; PRIORITY: 'priority'; WEIGHT: 'weight'; SLO: 'slo';
BATCH: 'batch'; MIN: 'min'; MAX: 'max'; ADAPT: 'adapt'; RECORD: 'record'; LET: 'let'; VAR: 'var'; BYTES: 'bytes';
CSTR: 'cstr'; BITS: 'bits'; WHEN: 'when'; TEXT: 'text'; FN: 'fn'; CHAIN: 'chain'; FILE: 'file'; ON: 'on'; READ: 'read';
OPEN: 'open'; READY: 'ready'; PROBE: 'probe'; HOPS: 'hops'; STATE: 'state'; STEP: 'step'; DONE: 'done'; BLOCK: 'block';
FROM: 'from'; AT: 'at'; FOR: 'for'; IN: 'in'; TAG: 'tag'; IF: 'if'; ELSE: 'else'; GOTO: 'goto'; NEXT: 'next';
RETURN: 'return'; EMIT: 'emit'; FAIL: 'fail'; PREFETCH: 'prefetch'; MARK: 'mark'; REPLY: 'reply'; SKIPS: 'skip'; BREAK: 'break'; CONTINUE: 'continue';
SERVICE: 'service'; VIA: 'via'; REQUEST: 'request'; MALFORMED: 'malformed'; FAILURE: 'failure'; DATAGRAM: 'datagram';
ENTRIES: 'entries'; TTL: 'ttl'; KEY: 'key'; BY: 'by'; TRUE: 'true'; FALSE: 'false';

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
