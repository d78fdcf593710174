// What the browser's driver runs after runtime.js and R, an array of lists of references: for bodies without room
// for them. A script starts a list by its number, and so does the element of a document.
function $(i){
R[i].map(_)
}
customElements.define("x-n",class extends HTMLElement{
async connectedCallback(){
// Else the browser would ask for /favicon.ico.
if(!d.querySelector("link[rel=icon]")){
let l=d.createElement("link");
l.rel="icon";
l.href="data:,";
d.documentElement.append(l)
}
for(let x of R[this.getAttribute("a")]){
_(x);
await 0
}
}
});
(s=>{
// As in documents with room for it (placement.rs).
s.replaceSync("img{display:none}");
d.adoptedStyleSheets=[s]
})(new CSSStyleSheet)
