//! Reads PTX text into its tree.
//!
//! ```text
//! file      = { directive | variable | function }
//! function  = [linkage] (.entry | .func ["(" returns ")"]) name ["(" parameters ")"] {bound} (body | ";")
//! body      = "{" { statement } "}"
//! statement = label ":" | [guard] opcode operands ";" | .reg … ";" | variable ";" | "{" | "}" | .loc | .pragma
//! ```
//!
//! Follows the text that NVIDIA's NVRTC 13 emits and the manual "PTX ISA 9.0" for the rest.
//! Absent: checks of names and types, which decoding does; `.section` blocks are skipped.

use crate::error::LoadError;

use super::lexer::{Kind, Lexer, Token, shortened};
use super::tree::{
    Address, Base, Declaration, Function, FunctionKind, Guard, InitialValue, Instruction, Number,
    Operand, ParsedModule, Space, Statement, StatementKind, Variable,
};

/// Scopes inside scopes; compilers write two.
const MAX_SCOPES: u32 = 64;
/// Bytes of a variable: more than any GPU's memory is a wrong number.
const MAX_VARIABLE_BYTES: u64 = 1 << 40;

/// Reads a whole file.
pub(crate) fn parse(text: &str) -> Result<ParsedModule<'_>, LoadError> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token };
    parser.module()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
}

/// What stands before `.entry`, `.func` or a variable.
#[derive(Default)]
struct Linkage {
    is_extern: bool,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<Token<'a>, LoadError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T, LoadError> {
        let got = match self.token.kind {
            Kind::Word(word) => format!("`{}`", shortened(word)),
            Kind::Number(number) => format!("{number:?}"),
            Kind::Text(text) => format!("\"{}\"", shortened(text)),
            Kind::Mark(mark) => format!("`{}`", mark as char),
            Kind::End => "the end of the text".into(),
        };
        Err(LoadError::Syntax {
            line: self.token.line,
            what: format!("{wanted} is wanted, {got} stands there"),
        })
    }

    fn is_mark(&self, mark: u8) -> bool {
        self.token.kind == Kind::Mark(mark)
    }

    fn take_mark(&mut self, mark: u8) -> Result<bool, LoadError> {
        let found = self.is_mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, mark: u8) -> Result<(), LoadError> {
        if self.take_mark(mark)? {
            return Ok(());
        }
        self.wrong(&format!("`{}`", mark as char))
    }

    fn word(&mut self) -> Result<&'a str, LoadError> {
        match self.token.kind {
            Kind::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => self.wrong("a name"),
        }
    }

    fn is_word(&self, word: &str) -> bool {
        self.token.kind == Kind::Word(word)
    }

    fn integer(&mut self) -> Result<u64, LoadError> {
        match self.token.kind {
            Kind::Number(Number::Integer(value)) => {
                self.advance()?;
                Ok(value)
            }
            _ => self.wrong("an integer"),
        }
    }

    fn signed(&mut self) -> Result<i64, LoadError> {
        let negative = self.take_mark(b'-')?;
        let value = self.integer()? as i64;
        Ok(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }

    fn skip_past(&mut self, mark: u8) -> Result<(), LoadError> {
        while !self.is_mark(mark) {
            if self.token.kind == Kind::End {
                return self.wrong(&format!("`{}`", mark as char));
            }
            self.advance()?;
        }
        self.advance()?;
        Ok(())
    }

    fn skip_line(&mut self, line: u32) -> Result<(), LoadError> {
        while self.token.line == line && self.token.kind != Kind::End {
            self.advance()?;
        }
        Ok(())
    }

    fn module(&mut self) -> Result<ParsedModule<'a>, LoadError> {
        let mut module = ParsedModule {
            version: (0, 0),
            target: "",
            variables: Vec::new(),
            functions: Vec::new(),
            files: Vec::new(),
        };
        while self.token.kind != Kind::End {
            self.top_level(&mut module)?;
        }
        if module.version == (0, 0) || module.target.is_empty() {
            return self.wrong("a `.version` and a `.target`");
        }
        Ok(module)
    }

    fn top_level(&mut self, module: &mut ParsedModule<'a>) -> Result<(), LoadError> {
        let line = self.token.line;
        let Kind::Word(word) = self.token.kind else {
            return self.wrong("a directive");
        };
        match word {
            ".version" => {
                self.advance()?;
                module.version = self.version()?;
            }
            ".target" => {
                self.advance()?;
                module.target = self.word()?;
                while self.take_mark(b',')? {
                    self.word()?;
                }
            }
            ".address_size" => {
                self.advance()?;
                if self.integer()? != 64 {
                    return self.wrong("an address size of 64");
                }
            }
            ".file" => self.file(module)?,
            ".section" => {
                self.skip_past(b'{')?;
                self.skip_past(b'}')?;
            }
            ".pragma" | ".alias" => self.skip_past(b';')?,
            ".loc" => self.skip_line(line)?,
            _ => self.definition(module)?,
        }
        Ok(())
    }

    fn version(&mut self) -> Result<(u32, u32), LoadError> {
        // A version is read as a fraction: 9.0 and 8.8 are exact enough to be taken apart again.
        let Kind::Number(number) = self.token.kind else {
            return self.wrong("a version");
        };
        self.advance()?;
        let tenths = match number {
            Number::Double(bits) => (f64::from_bits(bits) * 10.0).round(),
            Number::Integer(value) => value as f64 * 10.0,
            Number::Single(_) => 0.0,
        };
        let tenths = tenths.clamp(0.0, 1e6) as u32;
        Ok((tenths / 10, tenths % 10))
    }

    fn file(&mut self, module: &mut ParsedModule<'a>) -> Result<(), LoadError> {
        let line = self.token.line;
        self.advance()?;
        let number = self.integer()?;
        let Kind::Text(name) = self.token.kind else {
            return self.wrong("a file name");
        };
        module
            .files
            .push((number.min(u64::from(u32::MAX)) as u32, name));
        self.skip_line(line)
    }

    /// A variable or a function, after its linkage.
    fn definition(&mut self, module: &mut ParsedModule<'a>) -> Result<(), LoadError> {
        let mut linkage = Linkage::default();
        while let Kind::Word(".visible" | ".extern" | ".weak" | ".common") = self.token.kind {
            linkage.is_extern |= self.is_word(".extern");
            self.advance()?;
        }
        match self.token.kind {
            Kind::Word(".entry") => {
                self.advance()?;
                let function = self.function(FunctionKind::Entry)?;
                module.functions.push(function);
            }
            Kind::Word(".func") => {
                self.advance()?;
                let function = self.function(FunctionKind::Device)?;
                module.functions.push(function);
            }
            Kind::Word(word) if space_of(word).is_some() => {
                self.variables(linkage.is_extern, |variable| {
                    module.variables.push(variable)
                })?;
            }
            _ => return self.wrong("`.entry`, `.func` or a variable"),
        }
        Ok(())
    }

    fn function(&mut self, kind: FunctionKind) -> Result<Function<'a>, LoadError> {
        let line = self.token.line;
        let mut function = Function {
            kind,
            name: "",
            returns: Vec::new(),
            parameters: Vec::new(),
            max_threads: None,
            required_block: None,
            cluster: None,
            body: None,
            line,
        };
        if kind == FunctionKind::Device && self.is_mark(b'(') {
            function.returns = self.parameters()?;
        }
        function.name = self.word()?;
        if self.is_mark(b'(') {
            function.parameters = self.parameters()?;
        }
        self.bounds(&mut function)?;
        if self.take_mark(b';')? {
            return Ok(function);
        }
        function.body = Some(self.body()?);
        Ok(function)
    }

    fn bounds(&mut self, function: &mut Function<'a>) -> Result<(), LoadError> {
        // A cluster of one block is what every block is; of a size that the launch says there is none.
        let (mut has_size, mut needs_size) = (false, None);
        while let Kind::Word(word) = self.token.kind {
            let line = self.token.line;
            self.advance()?;
            match word {
                ".maxntid" | ".reqntid" => {
                    let block = self.triple()?;
                    let product = block.iter().fold(1u64, |n, &x| n.saturating_mul(x.into()));
                    function.max_threads = Some(product);
                    if word == ".reqntid" {
                        function.required_block = Some(block);
                    }
                }
                ".pragma" => self.skip_past(b';')?,
                ".noreturn" => {}
                ".abi_preserve" | ".abi_preserve_control" => {
                    self.integer()?;
                }
                ".minnctapersm" | ".maxnctapersm" | ".maxnreg" => {
                    self.integer()?;
                }
                ".reqnctapercluster" => {
                    let blocks = self.triple()?;
                    if blocks != [1; 3] {
                        let [x, y, z] = blocks;
                        let directive = format!("{word} {x}, {y}, {z}");
                        return Err(LoadError::Clusters { line, directive });
                    }
                    has_size = true;
                    function.cluster.get_or_insert((word, line));
                }
                ".maxclusterrank" => {
                    let most = self.integer()?;
                    if most == 0 {
                        let directive = format!("{word} {most}");
                        return Err(LoadError::Clusters { line, directive });
                    }
                    function.cluster.get_or_insert((word, line));
                }
                ".explicitcluster" | ".blocksareclusters" => {
                    needs_size.get_or_insert((word, line));
                    function.cluster.get_or_insert((word, line));
                }
                _ => return self.wrong("a known bound of a kernel before this"),
            }
        }
        match needs_size {
            Some((word, line)) if !has_size => Err(LoadError::Clusters {
                line,
                directive: word.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn triple(&mut self) -> Result<[u32; 3], LoadError> {
        let mut block = [1u32; 3];
        for (idx, slot) in block.iter_mut().enumerate() {
            if idx > 0 && !self.take_mark(b',')? {
                break;
            }
            *slot = self.integer()?.min(u64::from(u32::MAX)) as u32;
        }
        Ok(block)
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>, LoadError> {
        let mut parameters = Vec::new();
        self.expect(b'(')?;
        while !self.is_mark(b')') {
            let Kind::Word(".param" | ".reg") = self.token.kind else {
                return self.wrong("`.param`");
            };
            self.advance()?;
            let (element_bytes, align) = self.type_and_alignment()?;
            parameters.push(self.variable(Space::Param, element_bytes, align)?);
            if !self.take_mark(b',')? {
                break;
            }
        }
        self.expect(b')')?;
        Ok(parameters)
    }

    /// `.space [.align n] .type name[…] [= …] {, name} ;`
    fn variables(
        &mut self,
        is_extern: bool,
        mut take: impl FnMut(Variable<'a>),
    ) -> Result<(), LoadError> {
        let line = self.token.line;
        let word = self.word()?;
        let mut parts = word.split('.').filter(|part| !part.is_empty());
        let Some(space) = parts.next().and_then(space_of) else {
            return Err(LoadError::Syntax {
                line,
                what: format!("`{}` is no state space", shortened(word)),
            });
        };
        let (element_bytes, align) = self.type_and_alignment()?;
        loop {
            let mut variable = self.variable(space, element_bytes, align)?;
            variable.is_extern = is_extern;
            if self.take_mark(b'=')? {
                self.initial_values(&mut variable)?;
            }
            take(variable);
            if !self.take_mark(b',')? {
                break;
            }
        }
        self.expect(b';')
    }

    /// `[.align n] [.ptr …] .v4 .f32` in any order: bytes of an element, alignment.
    fn type_and_alignment(&mut self) -> Result<(u64, u64), LoadError> {
        let mut align = None;
        let mut lanes = 1;
        let mut size = None;
        let mut pointee = false;
        while let Kind::Word(word) = self.token.kind {
            if !word.starts_with('.') {
                break;
            }
            self.advance()?;
            for part in word.split('.').filter(|part| !part.is_empty()) {
                match part {
                    "align" => {
                        let value = self.integer()?;
                        if !value.is_power_of_two() || value > 4096 {
                            return self.wrong("an alignment that is a power of two before this");
                        }
                        if !pointee {
                            align = Some(value);
                        }
                    }
                    "v2" => lanes = 2,
                    "v4" => lanes = 4,
                    "v8" => lanes = 8,
                    "ptr" => pointee = true,
                    "global" | "const" | "shared" | "local" | "generic" if pointee => {}
                    "attribute" => self.skip_past(b')')?,
                    _ => match bits_of_type(part) {
                        Some(bits) if bits >= 8 => size = Some(u64::from(bits / 8)),
                        _ => return self.wrong("a type before this"),
                    },
                }
            }
        }
        let Some(size) = size else {
            return self.wrong("a type");
        };
        let bytes = size * lanes;
        Ok((bytes, align.unwrap_or(bytes)))
    }

    fn variable(
        &mut self,
        space: Space,
        element_bytes: u64,
        align: u64,
    ) -> Result<Variable<'a>, LoadError> {
        let line = self.token.line;
        let name = self.word()?;
        let mut len_bytes = Some(element_bytes);
        while self.take_mark(b'[')? {
            if self.take_mark(b']')? {
                len_bytes = None;
                continue;
            }
            let count = self.integer()?;
            self.expect(b']')?;
            len_bytes = len_bytes.map(|len| len.saturating_mul(count));
        }
        if let Some(got) = len_bytes.filter(|&len| len > MAX_VARIABLE_BYTES) {
            return Err(LoadError::TooLarge {
                line,
                what: "a variable's size",
                got,
                limit: MAX_VARIABLE_BYTES,
            });
        }
        Ok(Variable {
            space,
            name,
            element_bytes,
            len_bytes,
            align,
            initial: Vec::new(),
            is_extern: false,
            line,
        })
    }

    /// A value, or values in braces, which may be nested as arrays are.
    fn initial_values(&mut self, variable: &mut Variable<'a>) -> Result<(), LoadError> {
        let mut depth = 0u32;
        loop {
            match self.token.kind {
                Kind::Mark(b'{') => {
                    depth += 1;
                    self.advance()?;
                    continue;
                }
                Kind::Mark(b'}') if depth > 0 => {
                    depth -= 1;
                    self.advance()?;
                }
                _ => {
                    let value = self.initial_value()?;
                    variable.initial.push(value);
                }
            }
            while depth > 0 && self.take_mark(b'}')? {
                depth -= 1;
            }
            if depth == 0 {
                break;
            }
            self.take_mark(b',')?;
        }
        let n_elements = variable.initial.len() as u64;
        match variable.len_bytes {
            None => variable.len_bytes = Some(n_elements * variable.element_bytes),
            Some(len) if n_elements * variable.element_bytes > len => {
                return Err(LoadError::TooLarge {
                    line: variable.line,
                    what: "a number of initial values",
                    got: n_elements,
                    limit: len / variable.element_bytes,
                });
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn initial_value(&mut self) -> Result<InitialValue<'a>, LoadError> {
        if let Kind::Word(word) = self.token.kind {
            self.advance()?;
            let name = if word == "generic" {
                self.expect(b'(')?;
                let name = self.word()?;
                self.expect(b')')?;
                name
            } else {
                word
            };
            let offset = if self.take_mark(b'+')? {
                self.signed()?
            } else {
                0
            };
            return Ok(InitialValue::Symbol(name, offset));
        }
        let negative = self.take_mark(b'-')?;
        match self.token.kind {
            Kind::Number(number) => {
                self.advance()?;
                Ok(InitialValue::Literal(number, negative))
            }
            _ => self.wrong("an initial value"),
        }
    }

    fn body(&mut self) -> Result<Vec<Statement<'a>>, LoadError> {
        self.expect(b'{')?;
        let mut statements = Vec::new();
        let mut depth = 0u32;
        loop {
            let line = self.token.line;
            match self.token.kind {
                Kind::Mark(b'}') if depth == 0 => {
                    self.advance()?;
                    return Ok(statements);
                }
                Kind::Mark(b'}') => {
                    depth -= 1;
                    self.advance()?;
                    let kind = StatementKind::Close;
                    statements.push(Statement { line, kind });
                }
                Kind::Mark(b'{') => {
                    depth += 1;
                    if depth > MAX_SCOPES {
                        return Err(LoadError::TooLarge {
                            line,
                            what: "a depth of scopes",
                            got: depth.into(),
                            limit: MAX_SCOPES.into(),
                        });
                    }
                    self.advance()?;
                    let kind = StatementKind::Open;
                    statements.push(Statement { line, kind });
                }
                Kind::Mark(b';') => {
                    self.advance()?;
                }
                Kind::Mark(b'@') => {
                    let kind = StatementKind::Instruction(self.guarded()?);
                    statements.push(Statement { line, kind });
                }
                Kind::Word(word) if word.starts_with('.') => {
                    self.directive(word, &mut statements)?;
                }
                Kind::Word(word) => self.label_or_instruction(word, &mut statements)?,
                _ => return self.wrong("a statement"),
            }
        }
    }

    fn directive(
        &mut self,
        word: &'a str,
        statements: &mut Vec<Statement<'a>>,
    ) -> Result<(), LoadError> {
        let line = self.token.line;
        match word {
            ".loc" => {
                self.advance()?;
                let file = self.integer()?.min(u64::from(u32::MAX)) as u32;
                let source = self.integer()?.min(u64::from(u32::MAX)) as u32;
                self.skip_line(line)?;
                let kind = StatementKind::Location(file, source);
                statements.push(Statement { line, kind });
                Ok(())
            }
            ".pragma" => self.skip_past(b';'),
            _ if word == ".reg" || word.starts_with(".reg.") => self.registers(word, statements),
            _ if word.split('.').nth(1).and_then(space_of).is_some() => {
                self.variables(false, |variable| {
                    let kind = StatementKind::Variable(variable);
                    statements.push(Statement { line, kind });
                })
            }
            _ => self.wrong("a known directive"),
        }
    }

    fn registers(
        &mut self,
        word: &'a str,
        statements: &mut Vec<Statement<'a>>,
    ) -> Result<(), LoadError> {
        let line = self.token.line;
        self.advance()?;
        let mut kind_word = word.strip_prefix(".reg").unwrap_or("");
        if kind_word.is_empty() {
            kind_word = self.word()?;
        }
        let Some(bits) = bits_of_type(kind_word.trim_start_matches('.')) else {
            return Err(LoadError::Syntax {
                line,
                what: format!("`{}` is no type of a register", shortened(kind_word)),
            });
        };
        loop {
            let name = self.word()?;
            let mut count = None;
            if self.take_mark(b'<')? {
                count = Some(self.integer()?);
                self.expect(b'>')?;
            }
            let kind = StatementKind::Registers(Declaration { name, count, bits });
            statements.push(Statement { line, kind });
            if !self.take_mark(b',')? {
                break;
            }
        }
        self.expect(b';')
    }

    fn guarded(&mut self) -> Result<Instruction<'a>, LoadError> {
        self.expect(b'@')?;
        let negated = self.take_mark(b'!')?;
        let register = self.word()?;
        let opcode = self.word()?;
        let mut instruction = self.instruction(opcode)?;
        instruction.guard = Some(Guard { register, negated });
        Ok(instruction)
    }

    fn label_or_instruction(
        &mut self,
        word: &'a str,
        statements: &mut Vec<Statement<'a>>,
    ) -> Result<(), LoadError> {
        let line = self.token.line;
        self.advance()?;
        if !self.take_mark(b':')? {
            let kind = StatementKind::Instruction(self.instruction(word)?);
            statements.push(Statement { line, kind });
            return Ok(());
        }
        match self.token.kind {
            Kind::Word(".callprototype") => self.skip_past(b';'),
            Kind::Word(".branchtargets" | ".calltargets") => {
                self.advance()?;
                let mut labels = vec![self.word()?];
                while self.take_mark(b',')? {
                    labels.push(self.word()?);
                }
                self.expect(b';')?;
                let kind = StatementKind::BranchTargets(word, labels);
                statements.push(Statement { line, kind });
                Ok(())
            }
            _ => {
                let kind = StatementKind::Label(word);
                statements.push(Statement { line, kind });
                Ok(())
            }
        }
    }

    fn instruction(&mut self, opcode: &'a str) -> Result<Instruction<'a>, LoadError> {
        let mut operands = Vec::new();
        if !self.is_mark(b';') {
            operands.push(self.operand()?);
            while self.take_mark(b',')? {
                operands.push(self.operand()?);
            }
        }
        self.expect(b';')?;
        Ok(Instruction {
            guard: None,
            opcode,
            operands,
        })
    }

    fn operand(&mut self) -> Result<Operand<'a>, LoadError> {
        match self.token.kind {
            Kind::Mark(b'{') => {
                self.advance()?;
                Ok(Operand::Vector(self.elements(b'}')?))
            }
            Kind::Mark(b'(') => {
                self.advance()?;
                Ok(Operand::List(self.elements(b')')?))
            }
            Kind::Mark(b'[') => self.memory(),
            _ => self.simple_operand(),
        }
    }

    /// Elements of a vector or a list are never lists themselves, so this does not nest.
    fn elements(&mut self, end: u8) -> Result<Vec<Operand<'a>>, LoadError> {
        let mut elements = Vec::new();
        while !self.is_mark(end) {
            elements.push(self.simple_operand()?);
            if !self.take_mark(b',')? {
                break;
            }
        }
        self.expect(end)?;
        Ok(elements)
    }

    fn simple_operand(&mut self) -> Result<Operand<'a>, LoadError> {
        if self.take_mark(b'!')? {
            return Ok(Operand::Not(self.word()?));
        }
        let negative = self.take_mark(b'-')?;
        match self.token.kind {
            Kind::Number(number) => {
                self.advance()?;
                Ok(Operand::Literal(number, negative))
            }
            Kind::Word(word) if !negative => {
                self.advance()?;
                if self.take_mark(b'|')? {
                    return Ok(Operand::Pair(word, self.word()?));
                }
                if self.take_mark(b'+')? {
                    return Ok(Operand::NamePlus(word, self.signed()?));
                }
                Ok(Operand::Name(word))
            }
            _ => self.wrong("an operand"),
        }
    }

    fn memory(&mut self) -> Result<Operand<'a>, LoadError> {
        self.expect(b'[')?;
        let base = match self.token.kind {
            Kind::Word(word) => {
                self.advance()?;
                Base::Name(word)
            }
            _ => Base::Absolute(self.integer()?),
        };
        let mut offset = 0;
        if self.take_mark(b'+')? || self.is_mark(b'-') {
            offset = self.signed()?;
        }
        self.expect(b']')?;
        Ok(Operand::Memory(Address { base, offset }))
    }
}

fn space_of(word: &str) -> Option<Space> {
    let first = word.trim_start_matches('.').split(['.', ':']).next()?;
    Some(match first {
        "global" => Space::Global,
        "const" => Space::Const,
        "shared" => Space::Shared,
        "local" => Space::Local,
        "param" => Space::Param,
        _ => return None,
    })
}

fn bits_of_type(name: &str) -> Option<u32> {
    Some(match name {
        "pred" => 1,
        "b8" | "u8" | "s8" => 8,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 16,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 32,
        "b64" | "u64" | "s64" | "f64" => 64,
        _ => return None,
    })
}
