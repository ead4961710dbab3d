//! A report as one HTML file that needs nothing else: no script, no font, no request.
//!
//! Text goes in as data and pictures as [`Svg`]: there is no way to put markup in.

use std::fmt::Write as _;

use crate::colour::Colour;
use crate::markup::escape;
use crate::svg::Svg;
use crate::table::{Table, Tone};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#26292e;max-width:1360px;margin:32px auto;padding:0 20px}\
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}h3{font-size:15px;margin:22px 0 4px}\
table{border-collapse:collapse;width:100%;font-size:13px}\
th,td{text-align:right;padding:4px 6px;border-bottom:1px solid #dfe3e8;font-variant-numeric:tabular-nums;white-space:nowrap}\
th{vertical-align:bottom;white-space:normal}.l{text-align:left}td.l{white-space:normal}td.l:last-child{min-width:130px}\
.good{color:#2f8f5b;font-weight:600}.bad{color:#c23b3b;font-weight:600}.open{color:#9a6b00}.muted{color:#7a828c}\
.verdict{font-size:20px}.wide{overflow-x:auto}svg{max-width:100%;height:auto}.beside{display:flex;flex-wrap:wrap;gap:8px}\
.key{display:inline-block;margin-right:18px}.key i{display:inline-block;width:11px;height:11px;border-radius:6px;margin-right:6px}";

/// A page being written, from top to bottom.
///
/// # Examples
///
/// ```
/// use spark_drawing::{Page, Tone};
///
/// let mut page = Page::new("Steering <b>");
/// page.verdict("It may go in.", Tone::Good);
/// page.list(["41 scenarios", "no new collision"]);
/// let html = page.finish();
/// assert!(html.contains("<h1>Steering &lt;b&gt;</h1>")); // text is data
/// ```
#[derive(Debug, Clone)]
pub struct Page {
    text: String,
}

// Writing to a string cannot fail.
impl Page {
    /// A page with its title as its first heading.
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        Self {
            text: format!(
                "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
                 <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
                 <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
            ),
        }
    }

    /// Adds a heading of the second level.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "<h2>{}</h2>", escape(text));
    }

    /// A heading below that.
    pub fn subheading(&mut self, text: &str) {
        let _ = writeln!(self.text, "<h3>{}</h3>", escape(text));
    }

    /// Adds a paragraph of plain text.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, "<p>{}</p>", escape(text));
    }

    /// A paragraph that explains.
    pub fn remark(&mut self, text: &str) {
        let _ = writeln!(self.text, "<p class=\"muted\">{}</p>", escape(text));
    }

    /// What the page comes to, in large letters.
    pub fn verdict(&mut self, text: &str, tone: Tone) {
        let class = tone.class();
        let text = escape(text);
        let _ = writeln!(self.text, "<p class=\"verdict {class}\">{text}</p>");
    }

    /// A list; nothing without items.
    pub fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_none() {
            return;
        }
        self.text.push_str("<ul>\n");
        for item in items {
            let _ = writeln!(self.text, "<li>{}</li>", escape(item.as_ref()));
        }
        self.text.push_str("</ul>\n");
    }

    /// Which colour is what.
    pub fn legend<'n>(&mut self, keys: impl IntoIterator<Item = (&'n str, Colour)>) {
        self.text.push_str("<p>");
        for (name, colour) in keys {
            let name = escape(name);
            let _ = write!(
                self.text,
                "<span class=\"key\"><i style=\"background:{colour}\"></i>{name}</span>"
            );
        }
        self.text.push_str("</p>\n");
    }

    /// Adds a table after what is there.
    pub fn table(&mut self, table: &Table) {
        self.text.push_str(&table.html());
    }

    /// Adds a picture on a line of its own.
    pub fn picture(&mut self, picture: Svg) {
        self.text.push_str(&picture.finish());
        self.text.push('\n');
    }

    /// Pictures side by side, as far as they fit.
    pub fn pictures(&mut self, pictures: impl IntoIterator<Item = Svg>) {
        self.text.push_str("<div class=\"beside\">");
        for picture in pictures {
            self.picture(picture);
        }
        self.text.push_str("</div>\n");
    }

    /// The whole page as HTML, which needs no other file.
    pub fn finish(mut self) -> String {
        self.text.push_str("</body></html>\n");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::BLUE;
    use crate::table::Align;

    #[test]
    fn nothing_that_is_given_becomes_markup() {
        let bad = "<script>\"'&";
        let mut page = Page::new(bad);
        page.heading(bad);
        page.subheading(bad);
        page.paragraph(bad);
        page.remark(bad);
        page.verdict(bad, Tone::Good);
        page.list([bad]);
        page.legend([(bad, BLUE)]);
        let mut table = Table::new([(bad, Align::Left)]);
        table.row([bad]);
        page.table(&table);
        page.pictures([Svg::new(1.0, 1.0), Svg::new(1.0, 1.0)]);
        let text = page.finish();
        assert!(!text.contains("<script"));
        assert_eq!(text.matches("&lt;script&gt;&quot;&#39;&amp;").count(), 11);
        for tag in ["p", "h2", "ul", "li", "div", "svg", "table", "tr", "span"] {
            let closed = text.matches(&format!("</{tag}>")).count();
            let opened = text.matches(&format!("<{tag}>")).count()
                + text.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, closed, "{tag}");
        }
    }

    #[test]
    fn a_list_without_items_is_none() {
        let mut page = Page::new("t");
        page.list::<&str>([]);
        assert!(!page.finish().contains("<ul>"));
    }
}
